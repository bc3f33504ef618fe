"""What commands on strings, lists, sets, sorted sets and hashes hand over to be repeated.

They are what redis-server 7.0.15 propagates, and as many changes as it counts. Repeated in a second engine, they give
the same data, whatever chance chose and whichever client waited. A client that watches a key learns of every change.
"""

import copy
import random

import pytest
import redis

from support.campaign import LONG, SEED
from support.companion_commands import Command, CompanionCommands
from support.in_process import InProcess
from support.raw_client import RawClient
from support.replication_feed import ReplicationFeed, alike, changes

COMMANDS = 20_000 if LONG else 3_000
HISTORIES = 200 if LONG else 10
COMMANDS_OF_HISTORY = 500
NOON = 1_700_000_000_000

CHANCE = {b"spop", b"srandmember", b"hrandfield", b"zrandmember"}
WAITING = {b"blpop", b"brpop", b"blmove", b"brpoplpush", b"blmpop", b"bzpopmin", b"bzpopmax", b"bzmpop"}


def write(writer: CompanionCommands, chance: random.Random) -> Command:
    command = writer.valid()
    return writer.spoil(command) if chance.random() < 0.15 else command


def in_transaction(command: Command) -> list[Command]:
    """Send commands that may wait inside a transaction, where no command waits."""
    return [[b"MULTI"], command, [b"EXEC"]] if command[0].lower() in WAITING else [command]


def has_overflow(command: Command) -> bool:
    """7.0 lets LREM overflow, which later versions refuse, and does not propagate zeros of a BITFIELD that fails."""
    if command[0].lower() == b"bitfield":
        return any(word.lower() == b"fail" for word in command)
    return command[0].lower() == b"lrem" and b"-9223372036854775808" in command


def test_random_commands_have_the_effects_of_redis(redis_server: redis.Redis, feed: ReplicationFeed) -> None:
    client = RawClient(int(redis_server.connection_pool.connection_kwargs["port"]))
    engine = InProcess()
    seed = SEED if SEED is not None else random.randrange(2**32) if LONG else 5
    writer, chance = CompanionCommands(seed), random.Random(seed)
    client.run("SET", "mark", "")
    feed.read_until(b"mark")
    for number in range(COMMANDS):
        command = write(writer, chance)
        if command[0].lower() in CHANCE or has_overflow(command) or b"lex" in b" ".join(command).lower():
            continue
        before = changes(redis_server), engine.engine.dirty
        for each in in_transaction(command):
            client.run(*each)
            engine.run(*each)
        counted = changes(redis_server) - before[0], engine.engine.dirty - before[1]
        client.run("SET", "mark", number)
        expected, found = feed.read_until(b"mark"), engine.take_effects()
        context = (
            f"seed {seed}, command {number}: {command!r}\n"
            f"Redis    {counted[0]} {expected}\nHeadrace {counted[1]} {found}"
        )
        assert alike(expected, found), context
        assert counted[0] == counted[1], context
    client.close()


# --- repeating -------------------------------------------------------------------------------------------------------


def everything(engine: InProcess) -> dict[bytes, object]:
    """All that the first database holds, in an order that both have, and when it expires."""
    db = engine.engine.databases[0]
    return {key: (_plain(value), db.expires.get(key)) for key, value in db.values.items()}


def _plain(value: object) -> object:
    if isinstance(value, bytes | set | dict):
        return value
    return list(value.items()) if hasattr(value, "items") else list(value)  # type: ignore[call-overload]


@pytest.mark.parametrize("seed", [SEED] if SEED is not None else range(HISTORIES))
def test_effects_repeated_elsewhere_end_with_the_same_data(seed: int) -> None:
    engine, other = InProcess(), InProcess()
    engine.set_clock(NOON)
    other.set_clock(NOON + 3_000)
    writer, chance = CompanionCommands(seed), random.Random(seed)
    for number in range(COMMANDS_OF_HISTORY):
        client = engine.connect()
        command = write(writer, chance)
        client.run(*command)
        for database, effect in engine.take_effects():
            assert database == 0
            assert effect[0].lower() not in CHANCE | WAITING, effect
            other.run(*effect)
        assert everything(other) == everything(engine), f"seed {seed}, command {number}: {command!r}"


@pytest.mark.parametrize("seed", [SEED] if SEED is not None else range(HISTORIES))
def test_who_watches_a_key_that_changes_learns_it(seed: int) -> None:
    engine = InProcess()
    engine.set_clock(NOON)
    watcher = engine.connect()
    writer, chance = CompanionCommands(seed), random.Random(seed)
    for number in range(COMMANDS_OF_HISTORY):
        command = write(writer, chance)
        before = copy.deepcopy(everything(engine))
        for key in {*before, *command[1:]}:
            watcher.run("WATCH", key)
        engine.connect().run(*command)
        changed = everything(engine) != before
        assert watcher.client.watch_failed or not changed, f"seed {seed}, command {number}: {command!r}"
        watcher.run("UNWATCH")
