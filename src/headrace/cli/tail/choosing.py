"""Which streams `headrace tail` prints: those that are named, and those that a pattern matches, now or later.

A name with *, ? or [ is a pattern, unless a key has just this name. New streams that a pattern matches are found by
scanning the names once a second. Everything in such a stream is new.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

import redis

from headrace.cli.connecting import place_of, require_stream, stream_keys
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import raw, shown
from headrace.core.stream_id import StreamID

_SCAN_EVERY_S: Final = 1.0
_START: Final = StreamID(0, 0)


class ChosenStreams:
    """See the module. `positions` has where each stream ends for the one who follows it."""

    def __init__(self, client: redis.Redis, names: Sequence[str], *, follow: bool) -> None:
        self._client = client
        words = list(dict.fromkeys(raw(name) for name in names))
        self._patterns = [word for word in words if _may_be_pattern(word) and not client.exists(word)]
        self._named = [word for word in words if word not in self._patterns]
        self.positions: dict[bytes, StreamID] = {}
        for key in self._named:
            self.positions[key] = self._end_of_named(key, follow=follow)
        for pattern in self._patterns:
            self._add_matching(pattern, follow=follow)
        self._scan_at = time.monotonic() + _SCAN_EVERY_S

    @property
    def several(self) -> bool:
        """Whether an entry must show which stream it is of."""
        return bool(self._patterns) or len(self._named) > 1

    def _end_of_named(self, key: bytes, *, follow: bool) -> StreamID:
        """Where a stream ends now; what comes behind that is new. A stream that is not there yet may come."""
        if follow and self._client.type(key) == b"none":
            print(f"headrace: There is no stream {shown(key)} yet; waiting for it.", file=sys.stderr)  # noqa: T201
            return _START
        require_stream(self._client, key)
        return self._end_of(key) or _START

    def _add_matching(self, pattern: bytes, *, follow: bool) -> None:
        matching = sorted(stream_keys(self._client, pattern))
        if not matching and not follow:
            raise CommandFailed(f"No stream at {place_of(self._client)} matches {shown(pattern)}.")
        if not matching:
            print(f"headrace: No stream matches {shown(pattern)} yet; waiting for one.", file=sys.stderr)  # noqa: T201
        for key in matching:
            end = None if key in self.positions else self._end_of(key)
            if end is not None:
                self.positions[key] = end

    def _end_of(self, key: bytes) -> StreamID | None:
        try:
            return StreamID.parse(self._client.xinfo_stream(key)["last-generated-id"])
        except redis.ResponseError as error:
            if not str(error).startswith(("no such key", "WRONGTYPE")):
                raise
            return None  # it went after it was found

    def scan_when_due(self) -> None:
        """Find new streams of the patterns, and forget those that are gone."""
        if self._patterns and time.monotonic() >= self._scan_at:
            self.scan()

    def scan(self) -> None:
        """Do so now; raise where a stream that was named is none any more."""
        for key in self._named:
            if self._client.type(key) != b"none":
                require_stream(self._client, key)
        found = {key for pattern in self._patterns for key in stream_keys(self._client, pattern)}
        for key in self.positions.keys() - found - set(self._named):
            del self.positions[key]
        for key in sorted(found - self.positions.keys()):
            self.positions[key] = _START
        self._scan_at = time.monotonic() + _SCAN_EVERY_S


def _may_be_pattern(name: bytes) -> bool:
    return any(sign in name for sign in (b"*", b"?", b"["))
