"""What commands that take from lists and sorted sets, and wait where there is nothing, have in common."""

import math
from typing import Final

from headrace.commands import long_double
from headrace.commands.arguments import LONG_MAX, read_limited
from headrace.engine.call import Call
from headrace.engine.errors import SYNTAX, CommandError

_NO_COUNT: Final = b"ERR count should be greater than 0"


def read_timeout_ms(call: Call, index: int) -> int:
    """Read seconds, with a fraction, as whole milliseconds, rounded up; 0 is for ever."""
    seconds = long_double.read(call.argv[index])
    if seconds is None:
        raise CommandError(b"ERR timeout is not a float or out of range")
    if seconds * 1000 > LONG_MAX:
        raise CommandError(b"ERR timeout is out of range")
    if math.isinf(seconds) or math.ceil(seconds * 1000) < 0:
        raise CommandError(b"ERR timeout is negative")
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds > LONG_MAX - call.now_ms:
        raise CommandError(b"ERR timeout is out of range")
    return milliseconds


def read_pop_count(call: Call, at: int) -> int:
    """Read the COUNT of LMPOP and its like, which may be left out, and behind which nothing stands."""
    if at == call.argc:
        return 1
    if call.argv[at].lower() != b"count" or at + 1 == call.argc:
        raise CommandError(SYNTAX)
    count = read_limited(call, at + 1, 1, LONG_MAX, _NO_COUNT)
    if call.argc > at + 2:
        raise CommandError(SYNTAX)
    return count


def wait_for(call: Call, keys: list[bytes], kind: bytes, timeout_ms: int) -> None:
    """Answer when one of the keys holds that type of value; where nobody can wait, nil at once."""
    if call.may_block():
        call.block(keys, kind, timeout_ms, False, call.argv)
    else:
        call.reply.null_array()
