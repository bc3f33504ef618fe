"""The types of value that a key can have, by the names that TYPE gives them."""

from collections import deque

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream

KINDS: dict[type, bytes] = {
    Stream: b"stream",
    bytes: b"string",
    deque: b"list",
    MemberSet: b"set",
    dict: b"hash",
    SortedSet: b"zset",
}


def kind_of(value: object) -> bytes:
    """Name the type of a value; `none` for no value."""
    return KINDS[type(value)] if value is not None else b"none"
