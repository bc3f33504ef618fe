"""Commands about the server as a whole: its clock, its end, a picture; no cluster and no modules."""

import math
from typing import Final

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine import REDIS_VERSION
from headrace.engine.blocking.waiting import END
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import BUSY, SHUTDOWN_FAILED, SYNTAX, CommandError

_QUIET = Flag.LOADING | Flag.STALE
_ADMIN = Flag.ADMIN | Flag.NO_SCRIPT | Flag.STALE
_INT64_MAX = 2**63 - 1
_COLUMNS: Final = 66
_ROWS: Final = 7
_SHADES: Final = "   .-~=≈"
_NO_CLUSTER = b"ERR This instance has cluster support disabled"


# --- time and end ----------------------------------------------------------------------------------------------


@command("time", arity=1, flags=_QUIET | Flag.FAST, since="2.6.0", group="server")
def time_(call: Call) -> None:
    """Reply the Unix time: seconds, and microseconds of the second that has begun."""
    microseconds = call.engine.clocks.unix_us()
    call.reply.array(2)
    call.reply.bulk(b"%d" % (microseconds // 1_000_000))
    call.reply.bulk(b"%d" % (microseconds % 1_000_000))


@command(
    "shutdown [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]",
    arity=-1,
    flags=_ADMIN | Flag.LOADING | Flag.NO_MULTI | Flag.ALLOW_BUSY,
    since="1.0.0",
    group="server",
)
def shutdown(call: Call) -> None:
    """End the server; there is a reply only where it goes on.

    It ends when its replicas have everything, or after `shutdown-timeout`; with NOW, at once. ABORT lets it go on.
    """
    options = [word.lower() for word in call.argv[1:]]
    known = {b"nosave", b"save", b"now", b"force", b"abort"}
    if not known.issuperset(options) or {b"nosave", b"save"} <= set(options):
        raise CommandError(SYNTAX)
    if b"abort" in options:
        if len(options) > 1:
            raise CommandError(SYNTAX)
        if call.engine.hooks.server_end is None or not call.engine.hooks.server_end.abort():
            raise CommandError(b"ERR No shutdown in progress.")
        call.reply.ok()
        return
    if call.engine.hooks.server_end is None:
        raise CommandError(SHUTDOWN_FAILED)
    if call.engine.busy is not None and b"nosave" not in options:
        raise CommandError(BUSY)
    save = b"save" in options if {b"nosave", b"save"} & set(options) else None
    try:
        ends = call.engine.hooks.server_end.begin(save, now=b"now" in options, force=b"force" in options)
    except CommandError:
        raise CommandError(SHUTDOWN_FAILED) from None
    if ends:
        call.client.closing = True
    else:
        call.block([], END, 0, False, call.argv)


def read_timeout_ms(call: Call, index: int) -> int:
    """Read whole milliseconds; 0 is for ever."""
    timeout = call.integer(index, b"ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise CommandError(b"ERR timeout is negative")
    if timeout > _INT64_MAX - call.now_ms:
        raise CommandError(b"ERR timeout is out of range")
    return timeout


# --- the cluster, which this server is no part of ----------------------------------------------------------------


def _no_cluster(_: Call) -> None:
    """Refuse: this server is no part of a cluster."""
    raise CommandError(_NO_CLUSTER)


container("cluster", since="3.0.0", group="cluster", summary="Refuse: this server is no part of a cluster.")
for _syntax, _arity, _since in (
    ("cluster|countkeysinslot slot", 3, "3.0.0"),
    ("cluster|getkeysinslot slot count", 4, "3.0.0"),
    ("cluster|info", 2, "3.0.0"),
    ("cluster|keyslot key", 3, "3.0.0"),
    ("cluster|links", 2, "7.0.0"),
    ("cluster|myid", 2, "3.0.0"),
    ("cluster|myshardid", 2, "7.2.0"),
    ("cluster|nodes", 2, "3.0.0"),
    ("cluster|shards", 2, "7.0.0"),
    ("cluster|slots", 2, "3.0.0"),
):
    command(_syntax, arity=_arity, flags=Flag.STALE, since=_since, group="cluster")(_no_cluster)
for _name in ("readonly", "readwrite"):
    command(_name, arity=1, flags=_QUIET | Flag.FAST, since="3.0.0", group="cluster")(_no_cluster)


@command("cluster|help", arity=2, flags=_QUIET, since="5.0.0", group="cluster")
def cluster_help(call: Call) -> None:
    """Reply what CLUSTER can do."""
    reply_help(call)


# --- modules, of which there are none ---------------------------------------------------------------------------------

container("module", since="4.0.0", group="server", summary="Look at modules, of which there are none.")


@command("module|list", arity=2, flags=Flag.ADMIN | Flag.NO_SCRIPT, since="4.0.0", group="server")
def module_list(call: Call) -> None:
    """Reply the modules that are loaded: none."""
    call.reply.array(0)


@command("module|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="5.0.0", group="server")
def module_help(call: Call) -> None:
    """Reply what MODULE can do."""
    reply_help(call)


# --- a picture -------------------------------------------------------------------------------------------------------


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
