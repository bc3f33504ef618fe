"""What a key holds, as a command needs it: of one type, or refused; and what becomes of a key that a command changes.

    string   bytes              hash         dict of bytes
    list     deque of bytes     sorted set   SortedSet
    set      MemberSet

A collection that becomes empty is gone: no key holds nothing.
"""

from collections import deque
from collections.abc import Sized
from typing import Any, Final, TypeVar

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.errors import WRONG_TYPE, CommandError
from headrace.engine.pubsub.notifications import Event
from headrace.protocol.doubles import double_text

Held = TypeVar("Held")

_EVENT_CLASSES: Final = {
    bytes: Event.STRING,
    deque: Event.LIST,
    MemberSet: Event.SET,
    dict: Event.HASH,
    SortedSet: Event.SORTED_SET,
}


def _held(call: Call, key: bytes, kind: type[Held]) -> Held | None:
    value = call.find(key)
    if value is not None and not isinstance(value, kind):
        raise CommandError(WRONG_TYPE)
    return value


def string_at(call: Call, key: bytes) -> bytes | None:
    """Return the string of a key, or None; refuses any other type."""
    return _held(call, key, bytes)


def list_at(call: Call, key: bytes) -> deque[bytes] | None:
    """Return the list of a key, or None; refuses any other type."""
    return _held(call, key, deque)


def set_at(call: Call, key: bytes) -> MemberSet | None:
    """Return the set of a key, or None; refuses any other type."""
    return _held(call, key, MemberSet)


def hash_at(call: Call, key: bytes) -> dict[bytes, bytes] | None:
    """Return the hash of a key, or None; refuses any other type."""
    return _held(call, key, dict)


def sorted_set_at(call: Call, key: bytes) -> SortedSet | None:
    """Return the sorted set of a key, or None; refuses any other type."""
    return _held(call, key, SortedSet)


def note_change(call: Call, key: bytes, event_class: Event, event: bytes, changes: int = 1) -> None:
    """Tell clients that watch or listen what happened to a key, and count the change."""
    call.touch(key)
    call.notify(event_class, event, key)
    call.changed(changes)


def settle_removal(call: Call, key: bytes, held: Sized, event: bytes, removed: int = 1) -> None:
    """Note that a key holds less than before; where it holds nothing any more, it is gone."""
    note_change(call, key, _EVENT_CLASSES[type(held)], event, removed)
    if not held:
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)


def overwrite(call: Call, key: bytes, value: Any, event: bytes, *, keep_ttl: bool = False) -> None:
    """Give a key a value, whatever it held before, for ever or as long as it was to live."""
    if not keep_ttl:
        call.db.expires.pop(key, None)
    call.create(key, value)
    note_change(call, key, _EVENT_CLASSES[type(value)], event)


def change_string(call: Call, key: bytes, text: bytes, event: bytes) -> None:
    """Give a key another string than it has, or its first; it lives as long as it was to live."""
    if key in call.db.values:
        call.db.put(key, text)
    else:
        call.create(key, text)
    note_change(call, key, Event.STRING, event)


def store_for(call: Call, key: bytes, result: bytes | SortedSet, event: bytes, *without: str) -> None:
    """Do what `store_result` does, for a request that some values of `rdb-compatibility-version` are without.

    Servers of these versions have to load the effect: it is what was stored, in commands that every version has.
    """
    before = call.engine.dirty
    store_result(call, key, result, event)
    if call.engine.dirty == before or call.engine.config["rdb-compatibility-version"] not in without:
        return
    call.emit([b"DEL", key])
    if isinstance(result, SortedSet):
        pairs = [word for member, score in result.items() for word in (double_text(score), member)]
        stored = [b"ZADD", key, *pairs]
    else:
        stored = [b"SET", key, result]
    if result:
        call.emit(stored)


def store_result(call: Call, key: bytes, result: Sized, event: bytes | None = None) -> None:
    """Give a key what a command found, whatever it held before, and reply how much; for nothing there is no key.

    The event has the name of the command unless another is given.
    """
    if result:
        overwrite(call, key, result, event or call.command.name)
    elif key in call.db.values and call.delete(key):
        call.notify(Event.GENERIC, b"del", key)
        call.changed()
    call.reply.integer(len(result))
