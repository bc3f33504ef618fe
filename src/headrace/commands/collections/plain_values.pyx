# cython: nonecheck=True
"""What programs ask most of strings and hashes, compiled: SET with a lifetime or without, GET, INCR …, HSET, HGET.

Everything else about them is in `strings`, `string_edits` and `hashes`. In process, a SET takes 0.9 µs; through Python,
as with other options, 4.0.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport strict_integer, write_decimal
from headrace.engine.call cimport Call
from headrace.engine.command cimport DENY_OOM, FAST, READ, WRITE
from headrace.engine.pubsub.notifications cimport GENERIC, HASH, STRING

from headrace.commands.collections.strings import set_with_options
from headrace.commands.declaration.table import FIRST, command
from headrace.engine.errors import NOT_AN_INTEGER, WRONG_TYPE, CommandError, wrong_arity

cdef int64_t LARGEST = (<uint64_t>1 << 63) - 1
cdef int64_t SMALLEST = -LARGEST - 1
cdef int64_t LONGEST_LIFETIME = <int64_t>1 << 40        # in any unit: beyond it one may overflow
cdef bytes OVERFLOWS = b"ERR increment or decrement would overflow"


cdef bytes string_at(Call call, bytes key):
    """The string of a key, or None; refuses any other type."""
    cdef object value = call.find(key)
    if value is not None and type(value) is not bytes:
        raise CommandError(WRONG_TYPE)
    return <bytes>value


cdef dict hash_at(Call call, bytes key):
    """The hash of a key, or None; refuses any other type."""
    cdef object value = call.find(key)
    if value is not None and type(value) is not dict:
        raise CommandError(WRONG_TYPE)
    return <dict>value


cdef int note_change(Call call, bytes key, int event_class, bytes event, int64_t changes) except -1:
    """Tell clients that watch or listen what happened to a key, and count the change."""
    call.touch(key)
    call.notify(event_class, event, key)
    return call.changed(changes)


# --- strings ---------------------------------------------------------------------------------------------------

@command(
    "set key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value] [GET] [EX seconds | PX milliseconds | "
    "EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
    arity=-3, flags=WRITE | DENY_OOM, keys=FIRST, since="1.0.0", group="string",
)
def set_(Call call) -> None:
    """Give a key a string, whatever it held and whenever it was to expire.

    OK, or nil where a condition forbids it: NX that there is a key, XX that there is none, IFEQ that it holds another
    string, IFNE that it holds this one. With GET, the string that was there before, or nil.
    """
    cdef bytes key
    cdef int64_t lifetime_ms = 0
    if call.argc != 3:
        lifetime_ms = sole_lifetime(call) if call.argc == 5 else 0
        if lifetime_ms == 0:
            set_with_options(call)
            return
    key = <bytes>call.argv[1]
    call.find(key)      # a key whose time has come expires before it is set anew
    if call.db.expires:
        call.db.expires.pop(key, None)
    call.create(key, <bytes>call.argv[2])
    note_change(call, key, STRING, b"set", 1)
    if lifetime_ms:
        call.db.set_expiry(key, call.now_ms + lifetime_ms)
        call.notify(GENERIC, b"expire", key)
        call.emit([b"SET", key, call.argv[2], b"PXAT", decimal(call.now_ms + lifetime_ms)])
    call.reply.ok()


cdef int64_t sole_lifetime(Call call):
    """How many ms a SET of five words gives by EX or PX; 0: it has other options, or some mistake."""
    cdef const char *option = <bytes>call.argv[3]
    cdef bytes amount = <bytes>call.argv[4]
    cdef int64_t number
    if len(<bytes>call.argv[3]) != 2 or option[1] | 32 != c"x" or not strict_integer(amount, len(amount), &number):
        return 0
    if not 0 < number < LONGEST_LIFETIME:
        return 0
    if option[0] | 32 == c"e":
        return 1000 * number
    return number if option[0] | 32 == c"p" else 0


@command("get key", arity=2, flags=READ | FAST, keys=FIRST, since="1.0.0", group="string")
def get(Call call) -> None:
    """Reply the string of a key; nil where there is no key."""
    cdef bytes text = string_at(call, <bytes>call.argv[1])
    if text is None:
        call.reply.null()
    else:
        call.reply.bulk(text)


cdef bytes decimal(int64_t number):
    """The text of an integer."""
    cdef byte_t text[24]
    cdef size_t size = 0
    cdef uint64_t magnitude = <uint64_t>number
    if number < 0:
        text[0] = c"-"
        size = 1
        magnitude = 0 - magnitude
    size += write_decimal(magnitude, text + size)
    return PyBytes_FromStringAndSize(<char *>text, size)


cdef int count(Call call, int64_t step) except -1:
    """Add to the integer of a key, and reply the sum."""
    cdef bytes key = <bytes>call.argv[1]
    cdef bytes held = string_at(call, key)
    cdef int64_t number = 0
    if held is not None and not strict_integer(held, len(held), &number):
        raise CommandError(NOT_AN_INTEGER)
    if number > LARGEST - step if step > 0 else number < SMALLEST - step:
        raise CommandError(OVERFLOWS)
    number += step
    if held is None:
        call.create(key, decimal(number))
    else:
        call.db.put(key, decimal(number))
    note_change(call, key, STRING, b"incrby", 1)
    return call.reply.integer(number)


@command("incr key", arity=2, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0", group="string")
def incr(Call call) -> None:
    """Add 1 to the integer that a key holds, 0 where there is no key, and reply the sum."""
    count(call, 1)


@command("decr key", arity=2, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0", group="string")
def decr(Call call) -> None:
    """Subtract 1 from the integer that a key holds, 0 where there is no key, and reply the difference."""
    count(call, -1)


@command("incrby key increment", arity=3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0", group="string")
def incrby(Call call) -> None:
    """Add to the integer that a key holds, 0 where there is no key, and reply the sum."""
    count(call, call.integer(2))


@command("decrby key decrement", arity=3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0", group="string")
def decrby(Call call) -> None:
    """Subtract from the integer that a key holds, 0 where there is no key, and reply the difference."""
    cdef int64_t decrement = call.integer(2)
    if decrement == SMALLEST:
        raise CommandError(b"ERR decrement would overflow")
    count(call, -decrement)


# --- hashes ----------------------------------------------------------------------------------------------------

@command("hset key field value [field value ...]", arity=-4, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="2.0.0",
         group="hash")
def hset(Call call) -> None:
    """Give fields of a hash their texts, and reply how many are new."""
    cdef bytes key = <bytes>call.argv[1]
    cdef dict held
    cdef Py_ssize_t before
    cdef Py_ssize_t i
    if call.argc % 2:
        raise wrong_arity(call.command.name)
    held = hash_at(call, key)
    if held is None:
        held = {}
        call.create(key, held)
    before = len(held)
    for i in range(2, call.argc, 2):
        held[call.argv[i]] = call.argv[i + 1]
    note_change(call, key, HASH, b"hset", (call.argc - 2) // 2)
    call.reply.integer(len(held) - before)


@command("hget key field", arity=3, flags=READ | FAST, keys=FIRST, since="2.0.0", group="hash")
def hget(Call call) -> None:
    """Reply the text of a field; nil where there is none."""
    cdef dict held = hash_at(call, <bytes>call.argv[1])
    cdef object text = held.get(call.argv[2]) if held is not None else None
    if text is None:
        call.reply.null()
    else:
        call.reply.bulk(<bytes>text)
