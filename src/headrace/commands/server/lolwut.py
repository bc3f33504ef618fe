"""LOLWUT: a picture, and the version."""

import math
from typing import Final

from headrace.commands.declaration.table import command
from headrace.engine import REDIS_VERSION
from headrace.engine.call import Call
from headrace.engine.command import Flag

_COLUMNS: Final = 66
_ROWS: Final = 7
_SHADES: Final = "   .-~=≈"


def _water() -> str:
    """Draw a stream: two waves that run into each other, faster and darker towards its bed."""
    return "\n".join(
        "".join(
            _SHADES[round((math.sin(x / (9 - y)) + math.sin((x + 5 * y) / 4) + 2) / 4 * (len(_SHADES) - 1))]
            for x in range(_COLUMNS)
        ).rstrip()
        for y in range(_ROWS)
    )


@command("lolwut [VERSION version]", arity=-1, flags=Flag.READ | Flag.FAST, since="5.0.0", group="server")
def lolwut(call: Call) -> None:
    """Reply a picture and the version, of Redis as clients know it; there is one picture for all versions."""
    if call.argc > 2 and call.argv[1].lower() == b"version":
        call.integer(2)
    call.reply.verbatim(_water().encode() + b"\n\nRedis ver. %s\n" % REDIS_VERSION, b"txt")
