"""A sorted set: members, each with a score, in the order of their scores, and of their bytes where scores are equal.

    scores  { b"alice": 3.0, b"bob": 1.5, … }              member ─► score
    order   [ (1.5, b"bob"), (3.0, b"alice"), … ]          rank ─► both, found by bisection

A change costs two bisections and a move of what stands behind it in the list; a rank, a range or a count costs
bisections alone. A score is any number but NaN, which has no place in an order.

Ranges are half-open pairs of ranks, as slices are: `z.by_score(…)` says where a range begins and ends, and
`z.slice(…)` what is in it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from sys import getsizeof
from typing import Any, Self

from headrace.core.dict_pages import page_of_keys, without_empty_places

Bisection = Callable[..., int]


def _score_of(pair: tuple[float, bytes]) -> float:
    return pair[0]


def _member_of(pair: tuple[float, bytes]) -> bytes:
    return pair[1]


class SortedSet:
    """See the module."""

    __slots__ = ("_order", "_scores")

    def __init__(self) -> None:
        self._scores: dict[bytes, float] = {}
        self._order: list[tuple[float, bytes]] = []

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[bytes, float]]) -> Self:
        """Make one of many members at once; of a member that comes twice the last score counts."""
        made = cls()
        made._scores = dict(pairs)
        made._order = sorted((score, member) for member, score in made._scores.items())
        return made

    def copy(self) -> Self:
        """Return one that changes on its own."""
        made = type(self)()
        made._scores = self._scores.copy()
        made._order = self._order.copy()
        return made

    # --- members -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._scores)

    def __iter__(self) -> Iterator[bytes]:
        return map(_member_of, self._order)

    def __sizeof__(self) -> int:
        """Return the bytes of all but the members themselves."""
        containers = object.__sizeof__(self) + getsizeof(self._scores) + getsizeof(self._order)
        return containers + len(self._order) * (getsizeof((0.0, b"")) + getsizeof(0.0))

    def __contains__(self, member: object) -> bool:
        return member in self._scores

    def items(self) -> Iterator[tuple[bytes, float]]:
        """Go through members and scores, in order."""
        return starmap(_turned, self._order)

    def scores_as_added(self) -> dict[bytes, float]:
        """Members and scores, in the order in which the members came, to be looked at only."""
        return self._scores

    def items_as_added(self) -> Iterable[tuple[bytes, float]]:
        """Go through members and scores, in the order in which the members came."""
        return self._scores.items()

    def close_places(self) -> None:
        """Close the places that removed members have left."""
        self._scores = without_empty_places(self._scores)

    def page(self, cursor: int, most: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, and up to so many members below a cursor, in no order of scores."""
        return page_of_keys(self._scores, cursor, most)

    def with_scores(self, members: Iterable[bytes]) -> list[tuple[bytes, float]]:
        """Return members that are in it, with their scores."""
        return [(member, self._scores[member]) for member in members]

    def score(self, member: bytes) -> float | None:
        """Return the score of a member; None where it is none."""
        return self._scores.get(member)

    def add(self, member: bytes, score: float) -> bool:
        """Give a member its score, and tell whether it is a new one."""
        former = self._scores.get(member)
        if former is not None:
            del self._order[bisect_left(self._order, (former, member))]
        place = bisect_left(self._order, (score, member))
        self._order.insert(place, (score, member))
        self._scores[member] = score
        return former is None

    def remove(self, member: bytes) -> bool:
        """Remove a member; False where it is none."""
        score = self._scores.pop(member, None)
        if score is None:
            return False
        del self._order[bisect_left(self._order, (score, member))]
        return True

    # --- ranks -------------------------------------------------------------------------------------------------

    def rank(self, member: bytes) -> int | None:
        """Return how many members come before one; None where it is none."""
        score = self._scores.get(member)
        return None if score is None else bisect_left(self._order, (score, member))

    def slice(self, first: int, end: int) -> list[tuple[bytes, float]]:
        """List the members from one rank up to another, with their scores."""
        return [(member, score) for score, member in self._order[first:end]]

    def remove_slice(self, first: int, end: int) -> None:
        """Remove the members from one rank up to another."""
        for _, member in self._order[first:end]:
            del self._scores[member]
        del self._order[first:end]

    def by_score(self, low: float, high: float, *, above: bool = False, below: bool = False) -> tuple[int, int]:
        """Find the ranks between which scores are from `low` to `high`, or above the one, or below the other."""
        return self._between((low, above), (high, below), _score_of)

    def by_member(
        self, low: bytes | None, high: bytes | None, *, above: bool = False, below: bool = False
    ) -> tuple[int, int]:
        """Find the same by members, where all scores are equal; None is beyond any member."""
        return self._between((low, above), (high, below), _member_of)

    def _between(self, low: tuple[Any, bool], high: tuple[Any, bool], key: Callable[[Any], Any]) -> tuple[int, int]:
        start, after_start = low
        stop, before_stop = high
        from_start: Bisection = bisect_right if after_start else bisect_left
        to_stop: Bisection = bisect_left if before_stop else bisect_right
        first = 0 if start is None else from_start(self._order, start, key=key)
        end = len(self._order) if stop is None else to_stop(self._order, stop, key=key)
        return first, max(first, end)


def _turned(score: float, member: bytes) -> tuple[bytes, float]:
    return member, score
