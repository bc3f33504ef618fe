"""Comparing two servers key by key, while clients write to the old one.

    facts of a key: old ─► new          equal                       ─► done
                    old ─► new ─► old   the old one changed between ─► busy: decided when nobody writes
                                        it did not                  ─► a difference

Between old and new, `catch_up` waits until the new server has what the old one had. The entries of a stream are
compared page by page: a page that differs because it was trimmed meanwhile is read again. Up to which ID they were
found equal is remembered, so that the second comparison, for which writes must wait, reads only what came since.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import redis

from headrace.cli.connecting import ask
from headrace.cli.migrate.endpoint import Endpoint
from headrace.cli.migrate.facts import COMPARABLE, LAST_ID, LENGTH, MISSING, Facts, describe_difference, facts_of
from headrace.cli.showing import entries, plural, shown
from headrace.core.stream_id import MAX_ID, StreamID

_BATCH: Final = 200  # keys at a time
_LOOKED_AT: Final = 5000  # keys at a time where only some are wanted
_PAGE: Final = 1000  # entries at a time
_TRIES: Final = 5
_FIRST: Final = "0-0"


class Place(NamedTuple):
    """A key of a database."""

    database: int
    key: bytes

    def __str__(self) -> str:
        return shown(self.key, 60) + (f" in database {self.database}" if self.database else "")


@dataclass(frozen=True)
class Difference:
    """A difference between two servers."""

    place: Place | None  # None: it is about functions
    text: str
    foreign: bool = False  # the new server has no such type

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place is not None else self.text


@dataclass
class Outcome:
    """The result of a comparison."""

    streams: int = 0
    entries: int = 0
    others: int = 0
    differences: list[Difference] = field(default_factory=list)
    busy: list[Place] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{plural(self.streams, 'stream')} with {entries(self.entries)}, {plural(self.others, 'other key')}"


class Comparison:
    """Compares, and remembers what it need not read again."""

    def __init__(self, old: Endpoint, new: Endpoint, catch_up: Callable[[], None]) -> None:
        self.took_s = 0.0
        self._old = old
        self._new = new
        self._catch_up = catch_up
        self._equal_to: dict[Place, str] = {}  # of streams: the last entry that was compared
        self._busy: list[Place] = []

    def compare_all(self, advance: Callable[[int], None] = lambda _: None) -> Outcome:
        """Compare every key of both servers; `advance` is told how many keys are done."""
        began = time.monotonic()
        outcome = Outcome()
        done = 0
        old_counts, new_counts = self._old.key_counts(), self._new.key_counts()
        for database in sorted(old_counts | new_counts):
            for keys in _scan(self._old, database):
                self._compare_keys(database, keys, outcome)
                done += len(keys)
                advance(done)
            self._find_added(database, outcome)
        self._finish(outcome)
        self._busy = list(outcome.busy)
        self.took_s = time.monotonic() - began
        return outcome

    def compare_again(self) -> Outcome:
        """Compare what may have changed since: facts of streams, their new entries, numbers of keys, busy keys."""
        outcome = Outcome()
        old_counts, new_counts = self._old.key_counts(), self._new.key_counts()
        for database in sorted(old_counts | new_counts):
            for keys in _scan(self._old, database, "stream"):
                self._compare_keys(database, keys, outcome)
            if old_counts.get(database) != new_counts.get(database):  # keys that have expired may still be counted
                self._find_missing(database, outcome)
                self._find_added(database, outcome)
            outcome.others += old_counts.get(database, 0)
        outcome.others = max(0, outcome.others - outcome.streams)
        counted = outcome.streams, outcome.entries, outcome.others
        for place in self._busy:
            self._compare_keys(place.database, [place.key], outcome)
        outcome.streams, outcome.entries, outcome.others = counted
        self._finish(outcome)
        return outcome

    # --- keys ------------------------------------------------------------------------------------------------------

    def _compare_keys(self, database: int, keys: list[bytes], outcome: Outcome) -> None:
        old = self._facts(self._old, database, keys)
        new = self._facts(self._new, database, keys)
        for key, ours, theirs in zip(keys, old, new, strict=True):
            place = Place(database, key)
            facts = ours if ours == theirs else self._decide(place, outcome)
            if facts is None or facts["type"] == "none":
                continue
            if facts["type"] != "stream":
                outcome.others += 1
                continue
            outcome.streams += 1
            outcome.entries += int(facts[LENGTH])
            if not self._compare_entries(place, facts[LAST_ID]):
                outcome.differences.append(Difference(place, "the entries differ"))

    def _decide(self, place: Place, outcome: Outcome) -> Facts | None:
        """Look at a key again that seemed to differ; None where it does."""
        ours = theirs = again = MISSING
        for _ in range(_TRIES):
            (ours,) = self._facts(self._old, place.database, [place.key])
            self._catch_up()
            (theirs,) = self._facts(self._new, place.database, [place.key])
            if ours == theirs:
                return ours
            (again,) = self._facts(self._old, place.database, [place.key])
            if again == ours:
                foreign = theirs["type"] == "none" and ours["type"] not in COMPARABLE
                outcome.differences.append(Difference(place, describe_difference(ours, theirs), foreign))
                return None
        outcome.busy.append(place)
        return again if again["type"] == theirs["type"] else None

    def _find_missing(self, database: int, outcome: Outcome) -> None:
        for keys in _scan(self._old, database):
            self._look_for(keys, self._new, database, outcome)

    def _find_added(self, database: int, outcome: Outcome) -> None:
        for keys in _scan(self._new, database):
            self._look_for(keys, self._old, database, outcome)

    def _look_for(self, keys: list[bytes], server: Endpoint, database: int, outcome: Outcome) -> None:
        with server.explained():
            pipeline = server.database(database).pipeline(transaction=False)
            for key in keys:
                pipeline.exists(key)
            found = pipeline.execute()
        for key, there in zip(keys, found, strict=True):
            if not there:
                self._decide(Place(database, key), outcome)

    def _facts(self, server: Endpoint, database: int, keys: list[bytes]) -> list[Facts]:
        with server.explained():
            return facts_of(server.database(database), keys)

    # --- entries ---------------------------------------------------------------------------------------------------

    def _compare_entries(self, place: Place, last: str) -> bool:
        start = self._equal_to.get(place, _FIRST)
        if start == last and last != _FIRST:
            return True
        if StreamID.parse(start) > StreamID.parse(last):  # it was removed and made again
            start = _FIRST
        while True:
            end = self._compare_page(place, start, last)
            if end is None:
                return False
            self._equal_to[place] = end
            if end == last or StreamID.parse(end) == MAX_ID:
                return True
            start = str(StreamID.parse(end).successor())

    def _compare_page(self, place: Place, start: str, last: str) -> str | None:
        """Compare a page; returns the ID up to which all is equal, None where it is not."""
        for _ in range(_TRIES):
            page = self._range(self._old, place, start, last)
            end = page[-1][0].decode() if len(page) == _PAGE else last
            if page == self._range(self._new, place, start, end):
                return str(end)
            self._catch_up()
        return None

    def _range(self, server: Endpoint, place: Place, start: str, end: str) -> list[Any]:
        with server.explained():
            try:
                return list(ask(server.database(place.database), "XRANGE", place.key, start, end, "COUNT", _PAGE) or ())
            except redis.ResponseError as error:
                if str(error).startswith("WRONGTYPE"):
                    return []  # the key has become something else; its facts tell
                raise

    # --- the rest --------------------------------------------------------------------------------------------------

    def _finish(self, outcome: Outcome) -> None:
        """Compare what is no key, and name each difference once."""
        old, new = _libraries(self._old), _libraries(self._new)
        if old != new:
            self._catch_up()
            old, new = _libraries(self._old), _libraries(self._new)
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                outcome.differences.append(Difference(None, f"the library of functions {shown(name)} differs"))
        outcome.differences = list(dict.fromkeys(outcome.differences))  # a key may have been met twice


def _scan(server: Endpoint, database: int, kind: str | None = None) -> Iterator[list[bytes]]:
    """Give the keys of a database, or those of one type, in batches; a key may come twice."""
    asked: tuple[str | int, ...] = ("COUNT", _BATCH) if kind is None else ("COUNT", _LOOKED_AT, "TYPE", kind)
    cursor = 0
    waiting: list[bytes] = []
    while True:
        cursor, keys = server.ask("SCAN", cursor, *asked, database=database)
        waiting += keys
        if waiting and (len(waiting) >= _BATCH or not cursor):
            yield list(dict.fromkeys(waiting))
            waiting = []
        if not cursor:
            return


def _libraries(server: Endpoint) -> dict[bytes, bytes]:
    try:
        replies = server.client.execute_command("FUNCTION", "LIST", "WITHCODE")  # type: ignore[no-untyped-call]
    except redis.ResponseError:
        return {}  # it has no functions, or shows none
    except redis.RedisError:
        with server.explained():
            raise
    libraries = [dict(zip(reply[::2], reply[1::2], strict=True)) for reply in replies]
    return {library[b"library_name"]: library[b"library_code"] for library in libraries}
