"""Requests whose connection breaks: they are sent again where that does no harm, else an error is raised.

    no server is reached                     nothing was sent: again, for `patience` seconds, then CannotConnect
    the connection breaks before the reply   the requests may have run: sent again where that changes nothing more
                                             (reads, XACK, XDEL …); for others, such as XADD, ConnectionLost
    LOADING; with Sentinels also READONLY    they did not run: again, on another connection

A pause between two attempts grows from nothing to a second.
"""

from __future__ import annotations

import random
from time import monotonic
from typing import Final

from headrace.api.errors import CannotConnect, ConnectionLost, NotSupported, Refused
from headrace.api.runner import Request
from headrace.remote.greeting import NotYet

_REPEATABLE: Final = frozenset(
    (
        *(b"XLEN", b"XRANGE", b"XREVRANGE", b"XREAD", b"XINFO", b"XPENDING", b"XACK", b"XDEL", b"XTRIM", b"SCAN"),
        *(b"PING", b"ECHO", b"EXISTS", b"TYPE", b"GET", b"STRLEN", b"TTL", b"DBSIZE", b"INFO", b"TIME"),
    )
)
_REPEATABLE_PAIRS: Final = frozenset(
    (
        *((b"XGROUP", b"CREATE"), (b"XGROUP", b"SETID"), (b"HEADRACE", b"POLICY"), (b"HEADRACE", b"SCHEDULED")),
        *((b"CONFIG", b"GET"), (b"MEMORY", b"USAGE")),
    )
)
_SHORTEST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0


class Attempts:
    """The attempts at one call."""

    def __init__(self, place: str, patience: float, *, follows_master: bool) -> None:
        self._place = place
        self._end = monotonic() + patience
        self._patience = patience
        self._follows_master = follows_master
        self._made = 0

    def pause_unreached(self, error: Exception) -> float:
        """Return how long to wait before connecting again; raise CannotConnect when the time is over."""
        hopeless = isinstance(error, CannotConnect) and not isinstance(error, NotYet) and not self._follows_master
        if hopeless:
            raise error from None
        return self._pause(CannotConnect(f"There is no connection to {self._place}: {_reason(error)}."))

    def pause_broken(self, error: Exception, requests: tuple[Request, ...]) -> float:
        """Return how long to wait before sending again; raise ConnectionLost where that may do it twice."""
        what = b" ".join(requests[-1][:1]).decode("ascii", "backslashreplace")
        lost = ConnectionLost(f"The connection to {self._place} broke before {what} had its reply: {_reason(error)}.")
        if not all(may_repeat(request) for request in requests):
            raise lost from None
        return self._pause(lost)

    def pause_refused(self, refusals: list[Refused]) -> float | None:
        """Return how long to wait before sending again what did not run; None where a refusal is an answer."""
        for refusal in refusals:
            moved = self._follows_master and refusal.code in ("READONLY", "MASTERDOWN", "UNBLOCKED")
            if (refusal.code == "LOADING" or moved) and monotonic() < self._end:
                return self._pause(refusal)
        return None

    def _pause(self, error: Exception) -> float:
        now = monotonic()
        if now >= self._end:
            raise error from None
        longest = min(_SHORTEST_PAUSE_S * 2**self._made, _LONGEST_PAUSE_S)
        self._made += 1
        return min(longest * random.uniform(0.5, 1.0), self._end - now) if self._made > 1 else 0.0  # noqa: S311


def may_repeat(request: Request) -> bool:
    """Whether a request that ran changes nothing more when it runs again."""
    name = request[0].upper()
    if name in _REPEATABLE or (name == b"XADD" and b"IDMP" in request[2:6]):
        return True
    if name == b"XCLAIM" and request[-1] == b"JUSTID":  # counts no delivery
        return True
    return len(request) > 1 and (name, request[1].upper()) in _REPEATABLE_PAIRS


def wait_of(requests: tuple[Request, ...]) -> float | None:
    """Return for how many seconds requests may wait for messages, by their own words; None: for ever."""
    waits = 0.0
    for request in requests:
        name = request[0].upper()
        if name in (b"XREAD", b"XREADGROUP") and b"BLOCK" in request[:9]:
            blocked = int(request[request.index(b"BLOCK") + 1])
            if blocked == 0:
                return None
            waits += blocked / 1000
        elif name in (b"BLPOP", b"BRPOP", b"BZPOPMIN", b"BZPOPMAX", b"BLMOVE", b"BLMPOP", b"WAIT", b"WAITAOF"):
            return None
    return waits


def explain(refusal: Refused, place: str) -> Refused:
    """Return the one error that says that a server lacks something; other refusals as they are."""
    text = str(refusal)
    if text.startswith(("ERR unknown command", "ERR unknown subcommand", "ERR Unknown subcommand")):
        return NotSupported(f"{text.split(', with args', 1)[0]}: the server {place} is no Headrace, or is too old.")
    return refusal


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.rstrip(".") or type(error).__name__
