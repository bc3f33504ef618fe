"""ACL LOG: which clients were refused, why, and how often.

A refusal that repeats within a minute is counted, not listed again. The newest comes first, and `acllog-max-len` are
kept. Only the beginning is kept of very long names and keys, because the refused client chose them.
"""

from dataclasses import dataclass
from typing import Final

from headrace.engine.acl.rules import Reason

_SAME_WITHIN_MS: Final = 60_000
_LONGEST: Final = 1024  # bytes of a name, a key, or a line of CLIENT LIST

REASONS: Final = {
    Reason.COMMAND: b"command",
    Reason.KEY: b"key",
    Reason.AUTH: b"auth",
    Reason.CHANNEL: b"channel",
}


@dataclass
class Entry:
    """A refusal; `what` is the command, key or channel."""

    number: int
    reason: Reason
    context: bytes  # where the command stood: toplevel or multi
    what: bytes
    user: bytes
    client: bytes  # its line of CLIENT LIST
    created_ms: int
    updated_ms: int
    count: int = 1


class AclLog:
    """The entries, newest first, and how many of each reason there were in all."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.denied: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self._next = 0

    def add(
        self, reason: Reason, what: bytes, *, context: bytes, user: bytes, client: bytes, now_ms: int, most: int
    ) -> None:
        """Log a refusal, and keep at most so many entries."""
        self.denied[reason] += 1
        what, user, client = _cut(what), _cut(user), _cut(client)
        for at, entry in enumerate(self.entries):
            same = (entry.reason, entry.context, entry.what, entry.user) == (reason, context, what, user)
            if same and now_ms - entry.updated_ms <= _SAME_WITHIN_MS:
                entry.count += 1
                entry.client = client
                entry.updated_ms = now_ms
                self.entries.insert(0, self.entries.pop(at))
                return
        self.entries.insert(0, Entry(self._next, reason, context, what, user, client, now_ms, now_ms))
        self._next += 1
        del self.entries[most:]

    def clear(self) -> None:
        """Forget the entries."""
        self.entries = []


def _cut(text: bytes) -> bytes:
    if len(text) <= _LONGEST:
        return text
    return text[:_LONGEST] + b"... (%d more bytes)" % (len(text) - _LONGEST)
