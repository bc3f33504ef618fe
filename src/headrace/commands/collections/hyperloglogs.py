"""HyperLogLogs: strings that know how many different elements were added to them, about, and none of the elements.

The string is that of Redis to the byte, so that GET, SET and files carry it from one to the other.

`hll-sparse-max-bytes` decides when one becomes dense. That is a setting, and repeating effects reads none: a change for
this reason is therefore the effect SET, and repeating PFADD and PFMERGE knows no limit.
"""

from collections.abc import Iterator
from typing import Final

from headrace.commands.declaration.table import ALL, FIRST, command
from headrace.commands.held import change_string, string_at
from headrace.core.errors import CorruptHyperLogLog
from headrace.core.hyperloglog import HyperLogLog, count_together
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError

_NO_HYPERLOGLOG: Final = b"WRONGTYPE Key is not a valid HyperLogLog string value."
_CORRUPT: Final = b"INVALIDOBJ Corrupted HLL object detected"

_STALE: Final = 1 << 63


def _sketch_at(call: Call, key: bytes) -> HyperLogLog | None:
    """Return what a key holds, to be changed on its own, or None; refuses what is no HyperLogLog."""
    held = string_at(call, key)
    if held is None:
        return None
    if not HyperLogLog.has_header(held):
        raise CommandError(_NO_HYPERLOGLOG)
    return HyperLogLog(held, _sparse_limit(call))


def _sketches_at(call: Call, first: int) -> Iterator[HyperLogLog]:
    """Yield what the keys from an argument on hold, those that exist."""
    for key in call.argv[first:]:
        sketch = _sketch_at(call, key)
        if sketch is not None:
            yield sketch


def _new_sketch(call: Call) -> HyperLogLog:
    return HyperLogLog(None, _sparse_limit(call))


def _sparse_limit(call: Call) -> int:
    return 1 << 30 if call.engine.applying else min(call.engine.config["hll-sparse-max-bytes"], 1 << 30)


def _store(call: Call, key: bytes, sketch: HyperLogLog) -> None:
    sketch.forget_count()
    text = sketch.to_bytes()
    change_string(call, key, text, b"pfadd")
    if sketch.outgrew:
        call.emit([b"SET", key, text, b"KEEPTTL"])


@command(
    "pfadd key [element [element ...]]",
    arity=-2,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.FAST,
    keys=FIRST,
    since="2.8.9",
    group="hyperloglog",
)
def pfadd(call: Call) -> None:
    """Add elements to a HyperLogLog, and reply 1 where it is new or what PFCOUNT replies may have changed; else 0."""
    key = call.argv[1]
    held = _sketch_at(call, key)
    sketch = _new_sketch(call) if held is None else held
    try:
        changes = sum(map(sketch.add, call.argv[2:])) + (held is None)
    except CorruptHyperLogLog:
        raise CommandError(_CORRUPT) from None
    if changes:
        _store(call, key, sketch)
        call.changed(changes - 1)
    call.reply.integer(changes > 0)


@command(
    "pfcount key [key ...]",
    arity=-2,
    flags=Flag.READ | Flag.MAY_REPLICATE,
    keys=ALL,
    since="2.8.9",
    group="hyperloglog",
)
def pfcount(call: Call) -> None:
    """Reply how many different elements were added to a HyperLogLog, or to any of several: about, 0.81% off on average.

    The number of one is kept in its string until elements are added again.
    """
    try:
        count = count_together(_sketches_at(call, 1)) if call.argc > 2 else _count_one(call)
    except CorruptHyperLogLog:
        raise CommandError(_CORRUPT) from None
    call.reply.integer(count if count < _STALE else count - 2 * _STALE)


def _count_one(call: Call) -> int:
    """Return the number that is kept, or compute and keep it, unless nothing may be written now."""
    sketch = _sketch_at(call, call.argv[1])
    if sketch is None:
        return 0
    kept = sketch.kept_count
    if kept is not None:
        return kept
    count = sketch.count()
    if call.engine.applying or call.engine.refusals.writes is None:
        sketch.keep_count(count)
        call.db.put(call.argv[1], sketch.to_bytes())
        call.touch(call.argv[1])
        call.changed()
    return count


@command(
    "pfmerge destkey [sourcekey [sourcekey ...]]",
    arity=-2,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=ALL,
    since="2.8.9",
    group="hyperloglog",
)
def pfmerge(call: Call) -> None:
    """Let a HyperLogLog have all elements that others have, besides its own."""
    merged = _sketch_at(call, call.argv[1]) or _new_sketch(call)
    try:
        merged.merge(_sketches_at(call, 2))
    except CorruptHyperLogLog:
        raise CommandError(_CORRUPT) from None
    _store(call, call.argv[1], merged)
    call.reply.ok()
