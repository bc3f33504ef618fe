"""Which streams there are, found a page of keys at a time: metrics must not walk a million keys in one turn.

    keys of db0 ─► page ─► page ─► … keys of db1 ─► … ─► the round is over: `rest` is what this round has summed

A round goes through all keys, as SCAN does, a page in each turn of the event loop. A scrape takes so many pages and no
more: up to 100,000 keys are seen by every scrape, and of a million a tenth by each.

The first streams that a round meets are *chosen*, up to `metrics-max-streams`, and have samples of their own. They stay
chosen as long as they exist, so that series do not come and go. All others are summed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.server.metrics.families import label_of

PAGE: Final = 500  # keys: some 50 µs, or 0.5 ms where all of them are streams with groups
PAGES: Final = 200  # that one scrape looks at


@dataclass
class Rest:
    """The streams that are not chosen, summed."""

    streams: int = 0
    entries: int = 0
    groups: int = 0
    pending: int = 0


class Census:
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._chosen: dict[tuple[int, bytes], str] = {}  # (database, key) -> label
        self._labels: set[tuple[int, str]] = set()
        self._round: Iterator[None] | None = None
        self.rest = Rest()
        self.rounds = 0

    def chosen(self) -> list[tuple[int, bytes, str]]:
        """Give the database, the key and the label of each stream that has samples of its own."""
        return [(number, key, label) for (number, key), label in self._chosen.items()]

    def stream(self, number: int, key: bytes) -> Stream | None:
        """Return a chosen stream; None where it exists no longer, and then its place is free."""
        value = self._engine.databases[number].values.get(key)
        if isinstance(value, Stream):
            return value
        label = self._chosen.pop((number, key), None)
        if label is not None:
            self._labels.discard((number, label))
        return None

    def look(self) -> bool:
        """Look at one more page; return False when that has ended a round."""
        if self._round is None:
            self._round = self._pages()
        if next(self._round, self) is self:
            self._round = None
            self.rounds += 1
            return False
        return True

    def _pages(self) -> Iterator[None]:
        rest = Rest()
        for db in self._engine.databases:
            cursor, begun = 0, False
            while len(db) and (cursor or not begun):
                begun = True
                cursor, keys = db.scan(cursor, PAGE)
                for key in keys:
                    value = db.values.get(key)
                    if isinstance(value, Stream) and not self._choose(db.number, key):
                        rest.streams += 1
                        rest.entries += len(value)
                        groups = value.group_list()
                        rest.groups += len(groups)
                        rest.pending += sum(group.pending_count for group in groups)
                yield
        self.rest = rest

    def _choose(self, number: int, key: bytes) -> bool:
        """Give a stream samples of its own, if there is room, and no other stream has the same label."""
        most = self._engine.config["metrics-max-streams"]
        while len(self._chosen) > most:  # it was lowered
            (last_number, _), label = self._chosen.popitem()
            self._labels.discard((last_number, label))
        if (number, key) in self._chosen:
            return True
        label = label_of(key)
        if len(self._chosen) >= most or (number, label) in self._labels:
            return False
        self._chosen[number, key] = label
        self._labels.add((number, label))
        return True
