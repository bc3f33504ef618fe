"""A set: members, each once, in the order in which they came.

    members  { b"alice": None, b"bob": None, … }

A dictionary and not a Python set, because only a dictionary has an order that lasts: SSCAN walks on it page by page
while it changes (`core/dict_pages`), and what is written to a file in that order is read in the same.
"""

from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import Self

from headrace.core.dict_pages import page_of_keys, without_empty_places


class MemberSet:
    """See the module. `members` is there to be looked at; it changes by `add` and `remove`."""

    __slots__ = ("members",)

    def __init__(self, members: Iterable[bytes] = ()) -> None:
        self.members: dict[bytes, None] = dict.fromkeys(members)

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.members)

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def __eq__(self, other: object) -> bool:
        return self.members == other.members if isinstance(other, MemberSet) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MemberSet({list(self.members)!r})"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + getsizeof(self.members)

    def copy(self) -> Self:
        """Return one that changes on its own."""
        return type(self)(self.members)

    def add(self, members: Iterable[bytes]) -> int:
        """Add members, and return how many are new."""
        before = len(self.members)
        self.members.update(dict.fromkeys(members))
        return len(self.members) - before

    def remove(self, members: Iterable[bytes]) -> int:
        """Remove members, and return how many there were."""
        before = len(self.members)
        for member in members:
            self.members.pop(member, None)
        return before - len(self.members)

    def close_places(self) -> None:
        """Close the places that removed members have left."""
        self.members = without_empty_places(self.members)

    def page(self, cursor: int, most: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, and up to so many members below a cursor."""
        return page_of_keys(self.members, cursor, most)
