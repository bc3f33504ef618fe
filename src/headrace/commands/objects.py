"""OBJECT and MEMORY: how a value is kept, when it was last looked at, and what it costs."""

import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from headrace.commands.help import reply_help
from headrace.commands.table import SECOND, command, container
from headrace.core.stream import Stream
from headrace.engine.engine import Call, Flag
from headrace.engine.errors import SYNTAX, CommandError

_LONGEST_INTEGER: Final = 20
_LONGEST_EMBEDDED: Final = 44
_LARGEST_PACKED_LIST: Final = 8192
_LARGEST_INTSET: Final = 512
_LARGEST_PACKED_SET: Final = 128
_LONGEST_PACKED_MEMBER: Final = 64
_DEFAULT_SAMPLES: Final = 5

# What a key takes in a database beside its name and value: its places in three dictionaries and two lists.
_KEY_OVERHEAD: Final = 200


def _is_integer(text: bytes) -> bool:
    """Tell whether a text is what a signed 64-bit integer prints as."""
    if not 0 < len(text) <= _LONGEST_INTEGER or not (text.isdigit() or (text[:1] == b"-" and text[1:].isdigit())):
        return False
    return b"%d" % int(text) == text and -(2**63) <= int(text) < 2**63


def _encoding_of(value: object) -> bytes:
    """Name the encoding that Redis would keep the value in."""
    if isinstance(value, bytes):
        if _is_integer(value):
            return b"int"
        return b"embstr" if len(value) <= _LONGEST_EMBEDDED else b"raw"
    if isinstance(value, deque):
        return b"listpack" if sum(len(element) + 2 for element in value) <= _LARGEST_PACKED_LIST else b"quicklist"
    if isinstance(value, set):
        if len(value) <= _LARGEST_INTSET and all(map(_is_integer, value)):
            return b"intset"
        packed = len(value) <= _LARGEST_PACKED_SET and all(len(member) <= _LONGEST_PACKED_MEMBER for member in value)
        return b"listpack" if packed else b"hashtable"
    return b"stream"


# --- OBJECT ----------------------------------------------------------------------------------------------------

container("object", since="2.2.3", group="generic", summary="Look at how the value of a key is kept.")


@command("object|encoding key", arity=3, flags=Flag.READ, keys=SECOND, since="2.2.3", group="generic")
def object_encoding(call: Call) -> None:
    """Reply how Redis would keep the value of a key; nil where there is no key."""
    value = call.engine.peek(call.db, call.argv[2])
    if value is None:
        call.reply.null()
    else:
        call.reply.bulk(_encoding_of(value))


@command("object|freq key", arity=3, flags=Flag.READ, keys=SECOND, since="4.0.0", group="generic")
def object_freq(call: Call) -> None:
    """Refuse to reply how often a key is looked at: no policy that counts it exists here."""
    if call.engine.peek(call.db, call.argv[2]) is None:
        call.reply.null()
        return
    raise CommandError(
        b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
        b"between policies at runtime LRU and LFU data will take some time to adjust."
    )


@command("object|idletime key", arity=3, flags=Flag.READ, keys=SECOND, since="2.2.3", group="generic")
def object_idletime(call: Call) -> None:
    """Reply for how many seconds nobody has looked at a key; nil where there is no key."""
    key = call.argv[2]
    if call.engine.peek(call.db, key) is None:
        call.reply.null()
    else:
        call.reply.integer(max(call.engine.second - call.db.last_access(key), 0))


@command("object|refcount key", arity=3, flags=Flag.READ, keys=SECOND, since="2.2.3", group="generic")
def object_refcount(call: Call) -> None:
    """Reply 1, because no two keys share a value; nil where there is no key."""
    if call.engine.peek(call.db, call.argv[2]) is None:
        call.reply.null()
    else:
        call.reply.integer(1)


@command("object|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="6.2.0", group="generic")
def object_help(call: Call) -> None:
    """Reply what OBJECT can do."""
    reply_help(call)


# --- MEMORY ----------------------------------------------------------------------------------------------------

container("memory", since="4.0.0", group="server", summary="Look at what memory is used for.")


def _size_of_elements(elements: Iterable[bytes], count: int, samples: int) -> int:
    """Add up what elements take, estimated from the first few; a sample of 0 is all."""
    sample = list(islice(elements, samples or None))
    return sum(map(sys.getsizeof, sample)) * count // max(len(sample), 1)


def _size_of(value: object, samples: int) -> int:
    if isinstance(value, Stream):
        return value.memory_usage
    if isinstance(value, deque | set):
        return sys.getsizeof(value) + _size_of_elements(value, len(value), samples)
    return sys.getsizeof(value)


@command("memory|usage key [SAMPLES count]", arity=-3, flags=Flag.READ, keys=SECOND, since="4.0.0", group="server")
def memory_usage(call: Call) -> None:
    """Reply how many bytes a key and its value take; nil where there is no key.

    Of lists and sets, so many elements are measured and the others estimated; 0 measures all.
    """
    samples = _DEFAULT_SAMPLES
    for at in range(3, call.argc, 2):
        if call.argv[at].lower() != b"samples" or at + 1 == call.argc:
            raise CommandError(SYNTAX)
        samples = call.integer(at + 1)
        if samples < 0:
            raise CommandError(SYNTAX)
    key = call.argv[2]
    value = call.engine.peek(call.db, key)
    if value is None:
        call.reply.null()
    else:
        call.reply.integer(_size_of(value, min(samples, sys.maxsize)) + sys.getsizeof(key) + _KEY_OVERHEAD)


@command("memory|doctor", arity=2, flags=0, since="4.0.0", group="server")
def memory_doctor(call: Call) -> None:
    """Reply what is wrong with the memory: nothing that this server would know of."""
    call.reply.verbatim(b"Headrace keeps no figures that would show a memory problem. See INFO memory.\n", b"txt")


@command("memory|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="4.0.0", group="server")
def memory_help(call: Call) -> None:
    """Reply what MEMORY can do."""
    reply_help(call)
