"""CLIENT PAUSE: commands that are held back until a time, and run then in the order they came.

    engine.paused_until    ms of the steady clock; 0: not paused. Compared for every command
    engine.postponed       the clients whose request waits; each has it in `client.postponed`

Of two pauses, the longer and the stricter counts.
"""

import re
from typing import TYPE_CHECKING, Final

from headrace.engine.command import Flag

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.command import Command
    from headrace.engine.engine import Engine

CHANGES = Flag.WRITE | Flag.MAY_REPLICATE

_NO_WRITES: Final = re.compile(rb"#![^\n]*flags=[^ \n]*no-writes")


def pause(engine: "Engine", until_ms: int, *, writes_only: bool) -> None:
    """Hold commands back up to a time."""
    if engine.paused_until <= engine.steady_now_ms:
        engine.paused_writes_only = writes_only
    engine.paused_writes_only = engine.paused_writes_only and writes_only
    engine.paused_until = max(engine.paused_until, until_ms)
    engine.waiting.wake_at(engine.paused_until)


def must_wait(engine: "Engine", client: "Client", command: "Command", argv: list[bytes]) -> bool:
    """Tell whether a pause holds a command back."""
    if engine.steady_now_ms >= engine.paused_until:
        return False
    if not engine.paused_writes_only or _may_change(engine, command, argv):
        return True
    queue = client.queue if command.name == b"exec" else None
    return any(_may_change(engine, queued, words) for queued, words in queue or ())


def _may_change(engine: "Engine", command: "Command", argv: list[bytes]) -> bool:
    """Tell whether a command may change data or send messages; a script may, unless its first line says no-writes."""
    if command.name == b"eval":
        return _NO_WRITES.match(argv[1]) is None
    if command.name == b"evalsha":
        script = engine.scripts.find(argv[1])
        return script is None or script.flags is None or b"no-writes" not in script.flags
    if command.name == b"fcall":
        return b"no-writes" not in engine.functions.flags_of(argv[1])
    return bool(command.flags & CHANGES)


def unpause(engine: "Engine") -> None:
    """End a pause; what it held back runs as soon as the command that ends it is over."""
    engine.paused_until = 0
    if engine.postponed:
        engine.waiting.wake_at(engine.steady_now_ms)


def run_postponed(engine: "Engine") -> None:
    """Run what a pause held back, first come first."""
    engine.paused_until = 0
    clients = list(engine.postponed)
    engine.postponed.clear()
    for client in clients:
        argv = client.postponed
        if argv is None:
            continue  # one of the others has killed it
        client.postponed = None
        engine.execute(client, argv)
        client.channel.resume()
