"""Sessions of users that are logged in: a cookie stands for a link to the server as one of its users.

    login ─► the server accepts user and password ─► session: link, CSRF token ─► cookie
    idle for half a day, or logout ─► the link is closed

The cookie is a random number that JavaScript cannot read. The token is another one, which the page has and other pages
have not; every request that is not a page brings it along. Passwords stay in this process, because a link is made again
when the server was started again.
"""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.console.link import ServerLink

COOKIE: Final = "headrace_console"
_MOST_SESSIONS: Final = 64
_IDLE_S: Final = 12 * 3600.0


@dataclass
class Session:
    """One user in one browser; `known` is what pages keep between two readings."""

    user: str
    link: ServerLink
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    product: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    tails: int = 0
    exports: dict[str, dict[str, Any]] = field(default_factory=dict)  # those that were asked for: ticket ─► question
    seen: float = field(default_factory=time.monotonic)


class Sessions:
    """See the module."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    async def add(self, session: Session) -> str:
        """Keep a session, and return its cookie; where there are too many, the one that was idle longest ends."""
        await self._end_idle()
        while len(self._sessions) >= _MOST_SESSIONS:
            await self.end(min(self._sessions, key=lambda cookie: self._sessions[cookie].seen))
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = session
        return cookie

    def find(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie."""
        session = self._sessions.get(cookie or "")
        if session is None or time.monotonic() - session.seen > _IDLE_S:
            return None
        session.seen = time.monotonic()
        return session

    async def end(self, cookie: str | None) -> None:
        """End a session."""
        session = self._sessions.pop(cookie or "", None)
        if session is not None:
            await session.link.close()

    async def end_all(self) -> None:
        """End every session."""
        for cookie in list(self._sessions):
            await self.end(cookie)

    async def _end_idle(self) -> None:
        until = time.monotonic() - _IDLE_S
        for cookie in [cookie for cookie, session in self._sessions.items() if session.seen < until]:
            await self.end(cookie)
