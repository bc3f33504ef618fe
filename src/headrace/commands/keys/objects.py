"""OBJECT and MEMORY: how a value is kept, when it was last looked at, and what it costs."""

import sys
from collections import deque
from collections.abc import Iterable, Sized
from itertools import chain, islice
from typing import Final

from headrace.commands.arguments import integer_of
from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import SECOND, command, container
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.process import peak_resident_bytes, resident_bytes

_LONGEST_EMBEDDED: Final = 44
_DEFAULT_SAMPLES: Final = 5

# What a list packs together at most, by its number in list-max-listpack-size, or in any case.
_PACKED_BYTES: Final = {-1: 4096, -2: 8192, -3: 16384, -4: 32768, -5: 65536}
_ALWAYS_PACKED_BYTES: Final = 8192

_STARTUP_BYTES: Final = resident_bytes()  # when the commands were loaded, before any data

# What a key takes in a database beside its name and value: its places in three dictionaries and two lists.
_KEY_OVERHEAD: Final = 200


def encoding_of(value: object, config: Config) -> bytes:
    """Name the encoding that Redis would keep the value in, made anew."""
    if isinstance(value, bytes):
        if integer_of(value) is not None:
            return b"int"
        return b"embstr" if len(value) <= _LONGEST_EMBEDDED else b"raw"
    if isinstance(value, deque):
        return b"listpack" if _list_is_packed(value, config["list-max-listpack-size"]) else b"quicklist"
    if isinstance(value, MemberSet):
        if len(value) <= config["set-max-intset-entries"] and all(integer_of(member) is not None for member in value):
            return b"intset"
        return b"listpack" if _is_packed("set", value, value, config) else b"hashtable"
    if isinstance(value, dict):
        return b"listpack" if _is_packed("hash", value, chain(value, value.values()), config) else b"hashtable"
    if isinstance(value, SortedSet):
        return b"listpack" if _is_packed("zset", value, value, config) else b"skiplist"
    return b"stream"


def _is_packed(kind: str, value: Sized, texts: Iterable[bytes], config: Config) -> bool:
    """Tell whether a collection has few enough elements, and short ones, for one listpack."""
    longest = config[f"{kind}-max-listpack-value"]
    return len(value) <= config[f"{kind}-max-listpack-entries"] and all(len(text) <= longest for text in texts)


def _list_is_packed(value: deque[bytes], limit: int) -> bool:
    """Tell whether a list fits into one node, which is limited to so many elements, or below 0 to some size."""
    size = sum(len(element) + 2 for element in value)
    if limit < 0:
        return size <= _PACKED_BYTES[max(limit, -5)]
    return len(value) <= max(limit, 1) and size <= _ALWAYS_PACKED_BYTES


# --- OBJECT ----------------------------------------------------------------------------------------------------

container("object", since="2.2.3", group="generic", summary="Look at how the value of a key is kept.")


@command("object|encoding key", arity=3, flags=Flag.READ, keys=SECOND, since="2.2.3", group="generic")
def object_encoding(call: Call) -> None:
    """Reply how Redis would keep the value of a key; nil where there is no key."""
    value = call.peek(call.argv[2])
    if value is None:
        call.reply.null()
    else:
        call.reply.bulk(encoding_of(value, call.engine.config))


@command("object|freq key", arity=3, flags=Flag.READ, keys=SECOND, since="4.0.0", group="generic")
def object_freq(call: Call) -> None:
    """Refuse to reply how often a key is looked at: no policy that counts it exists here."""
    if call.peek(call.argv[2]) is None:
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
    if call.peek(key) is None:
        call.reply.null()
    else:
        call.reply.integer(max(call.engine.keyspace.second - call.db.last_access(key), 0))


@command("object|refcount key", arity=3, flags=Flag.READ, keys=SECOND, since="2.2.3", group="generic")
def object_refcount(call: Call) -> None:
    """Reply 1, because no two keys share a value; nil where there is no key."""
    if call.peek(call.argv[2]) is None:
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
    if isinstance(value, deque | MemberSet | dict | SortedSet):
        elements = chain.from_iterable(value.items()) if isinstance(value, dict) else value
        count = 2 * len(value) if isinstance(value, dict) else len(value)
        return sys.getsizeof(value) + _size_of_elements(elements, count, samples)
    return sys.getsizeof(value)


@command("memory|usage key [SAMPLES count]", arity=-3, flags=Flag.READ, keys=SECOND, since="4.0.0", group="server")
def memory_usage(call: Call) -> None:
    """Reply how many bytes a key and its value take; nil where there is no key.

    Of a collection, so many elements are measured and the others estimated; 0 measures all.
    """
    samples = _DEFAULT_SAMPLES
    for at in range(3, call.argc, 2):
        if call.argv[at].lower() != b"samples" or at + 1 == call.argc:
            raise CommandError(SYNTAX)
        samples = call.integer(at + 1)
        if samples < 0:
            raise CommandError(SYNTAX)
    key = call.argv[2]
    value = call.peek(key)
    if value is None:
        call.reply.null()
    else:
        call.reply.integer(_size_of(value, min(samples, sys.maxsize)) + sys.getsizeof(key) + _KEY_OVERHEAD)


@command("memory|purge", arity=2, flags=0, since="4.0.0", group="server")
def memory_purge(call: Call) -> None:
    """Have memory that was freed given back to the system, beside the event loop."""
    call.engine.freeing.return_pages()
    call.reply.ok()


def _statistics(engine: Engine) -> dict[str, int | float | dict[str, int]]:
    """Return the figures of MEMORY STATS: the process as the system sees it, and estimates of what keys take."""
    used, keys = resident_bytes(), sum(map(len, engine.databases))
    peak = max(used, peak_resident_bytes())
    overhead = _STARTUP_BYTES + keys * _KEY_OVERHEAD + engine.scripts.memory + engine.functions.memory
    data = max(used - overhead, 0)
    return {
        "peak.allocated": peak,
        "total.allocated": used,
        "startup.allocated": _STARTUP_BYTES,
        "replication.backlog": 0,
        "clients.slaves": 0,
        "clients.normal": 0,
        "cluster.links": 0,
        "aof.buffer": 0,
        "lua.caches": engine.scripts.memory,
        "functions.caches": engine.functions.memory,
        **{
            f"db.{db.number}": {
                "overhead.hashtable.main": len(db) * _KEY_OVERHEAD,
                "overhead.hashtable.expires": sys.getsizeof(db.expires),
                "overhead.hashtable.slot-to-keys": 0,
            }
            for db in engine.databases
            if len(db)
        },
        "overhead.total": overhead,
        "keys.count": keys,
        "keys.bytes-per-key": max(used - _STARTUP_BYTES, 0) // keys if keys else 0,
        "dataset.bytes": data,
        "dataset.percentage": 100 * data / max(used - _STARTUP_BYTES, data, 1),
        "peak.percentage": 100 * used / peak,
        "allocator.allocated": used,
        "allocator.active": used,
        "allocator.resident": used,
        "allocator-fragmentation.ratio": 1.0,
        "allocator-fragmentation.bytes": 0,
        "allocator-rss.ratio": 1.0,
        "allocator-rss.bytes": 0,
        "rss-overhead.ratio": 1.0,
        "rss-overhead.bytes": 0,
        "fragmentation": 1.0,
        "fragmentation.bytes": 0,
    }


@command("memory|stats", arity=2, flags=0, since="4.0.0", group="server")
def memory_stats(call: Call) -> None:
    """Reply what memory is used for, in bytes: as the system counts it, and estimates of what keys take.

    What an allocator wastes is in none of these figures: it is not told apart from what is used.
    """
    figures = _statistics(call.engine)
    call.reply.map(len(figures))
    for name, figure in figures.items():
        call.reply.bulk(name.encode())
        if isinstance(figure, dict):
            call.reply.map(len(figure))
            for inner, size in figure.items():
                call.reply.bulk(inner.encode())
                call.reply.integer(size)
        elif isinstance(figure, float):
            call.reply.double(figure)
        else:
            call.reply.integer(figure)


@command("memory|malloc-stats", arity=2, flags=0, since="4.0.0", group="server")
def memory_malloc_stats(call: Call) -> None:
    """Reply what the allocator tells of itself: nothing, as in a Redis without jemalloc."""
    call.reply.verbatim(b"Stats not supported for the current allocator", b"txt")


@command("memory|doctor", arity=2, flags=0, since="4.0.0", group="server")
def memory_doctor(call: Call) -> None:
    """Reply what is wrong with the memory: nothing that this server would know of."""
    call.reply.verbatim(b"Headrace keeps no figures that would show a memory problem. See INFO memory.\n", b"txt")


@command("memory|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="4.0.0", group="server")
def memory_help(call: Call) -> None:
    """Reply what MEMORY can do."""
    reply_help(call)
