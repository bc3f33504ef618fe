"""Pauses: commands that are held back until a time, and run then in the order they came.

    engine.pauses          why commands are held back, and until when: CLIENT PAUSE, FAILOVER, …
    engine.paused_until    ms of the steady clock: when the first ends; 0: not paused. Every command looks at it
    engine.postponed       the clients whose request waits; each has it in `client.postponed`

Of two pauses by CLIENT PAUSE, the longer and the stricter counts. Replicas and the master are never held back.
"""

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.command import Flag

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.command import Command
    from headrace.engine.engine import Engine

CHANGES = Flag.WRITE | Flag.MAY_REPLICATE
NO_END_MS: Final = 2**62

_NO_WRITES: Final = re.compile(rb"#![^\n]*flags=[^ \n]*no-writes")


class Purpose(IntEnum):
    """What commands are held back for."""

    CLIENT = 0  # CLIENT PAUSE
    FAILOVER = 1
    SHUTDOWN = 2  # replicas get what was written last
    MEMORY = 3  # entries are moved to disk


class Pause(NamedTuple):
    """What is held back, and how long."""

    until_ms: int  # of the steady clock
    writes_only: bool


def pause(engine: "Engine", until_ms: int, *, writes_only: bool, purpose: Purpose = Purpose.CLIENT) -> None:
    """Hold commands back up to a time."""
    former = engine.pauses.get(purpose)
    if former is not None and former.until_ms > engine.clocks.steady_now_ms:
        until_ms = max(until_ms, former.until_ms)
        writes_only = writes_only and former.writes_only
    engine.pauses[purpose] = Pause(until_ms, writes_only)
    _find_first_end(engine)


def _find_first_end(engine: "Engine") -> None:
    for purpose, each in list(engine.pauses.items()):
        if each.until_ms <= engine.clocks.steady_now_ms:
            del engine.pauses[purpose]
    engine.paused_until = min((each.until_ms for each in engine.pauses.values()), default=0)
    if 0 < engine.paused_until < NO_END_MS:
        engine.waiting.wake_at(engine.paused_until)


def must_wait(engine: "Engine", client: "Client", command: "Command", argv: list[bytes]) -> bool:
    """Tell whether a pause holds a command back."""
    now_ms = engine.clocks.steady_now_ms
    pauses = [each for each in engine.pauses.values() if now_ms < each.until_ms]
    if not pauses or client.is_follower or client.is_master:
        return False
    if not all(each.writes_only for each in pauses) or _may_change(engine, command, argv):
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


def unpause(engine: "Engine", purpose: Purpose = Purpose.CLIENT) -> None:
    """End a pause; what it held back runs as soon as the command that ends it is over."""
    if engine.pauses.pop(purpose, None) is not None:
        engine.paused_until = engine.clocks.steady_now_ms if engine.pauses else 0
        if engine.postponed:
            engine.waiting.wake_at(engine.clocks.steady_now_ms)


def run_postponed(engine: "Engine") -> None:
    """Run what a pause held back, first come first; another pause may hold it back again."""
    _find_first_end(engine)
    clients = list(engine.postponed)
    engine.postponed.clear()
    for client in clients:
        argv = client.postponed
        if argv is None:
            continue  # one of the others has killed it
        client.postponed = None
        engine.execute(client, argv)
        client.channel.resume()
