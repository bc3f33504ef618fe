"""What commands on keys hand over to be repeated, and how many changes they count, is what redis-server 7.0.15 does."""

import random

import redis

from support.campaign import LONG, SEED
from support.in_process import InProcess
from support.key_commands import Command, KeyCommands
from support.raw_client import RawClient
from support.replication_feed import Effect, ReplicationFeed, alike, changes

COMMANDS = 20_000 if LONG else 1_500


def without_conditions(effect: Effect) -> Effect:
    """Leave out that an expiry was set under conditions, which Redis repeats although they were met."""
    database, command = effect
    return database, command[:3] if command[0].upper() == b"PEXPIREAT" else command


def test_random_key_commands_have_the_effects_of_redis(redis_server: redis.Redis, feed: ReplicationFeed) -> None:
    redis_server.rpush("list", "a", "b")
    payload = redis_server.dump("list")
    redis_server.flushall()
    client = RawClient(int(redis_server.connection_pool.connection_kwargs["port"]))
    engine = InProcess()
    client.run("SET", "mark", "")
    feed.read_until(b"mark")
    engine.run(b"SET", b"mark", b"")
    engine.take_effects()
    seed = SEED if SEED is not None else random.randrange(2**32) if LONG else 7
    commands = KeyCommands(seed, payloads=[payload, payload, b"none"])
    for number in range(COMMANDS):
        command: Command = commands.draw()
        before = changes(redis_server), engine.engine.dirty
        for each in [(b"MULTI",), command, (b"EXEC",)] if command[0] in (b"BLPOP", b"BRPOP") else [command]:
            client.run(*each)
            engine.run(*each)
        counted = changes(redis_server) - before[0], engine.engine.dirty - before[1]
        client.run("SET", "mark", number)
        engine.run(b"SET", b"mark", b"%d" % number)
        expected = [without_conditions(effect) for effect in feed.read_until(b"mark")]
        found = engine.take_effects()[:-1]
        context = (
            f"seed {seed}, command {number}: {command!r}\n"
            f"Redis    {counted[0]} {expected}\nHeadrace {counted[1]} {found}"
        )
        assert alike(expected, found), context
        assert counted[0] == counted[1], context
    client.close()
