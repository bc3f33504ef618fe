"""The same random commands to Headrace and to a live redis-server 7.0.15: the same replies, to the byte.

    HEADRACE_SEED=n      run only the episode of that seed; a failure prints its seed, step and last commands
    HEADRACE_LONG=1      millions of commands, of seeds never used before

An episode begins with no data and follows from its seed. Several clients take turns, in RESP2 and RESP3, in and out of
transactions. Replies that are not equal byte for byte must be so by a rule of `version_rules.py`.
"""

from contextlib import ExitStack, closing

import pytest
import redis

from support.campaign import LONG, SEED
from support.episode import Answers, Campaign, Episode
from support.random_commands import Command, CommandWriter
from support.raw_client import RawClient
from support.twins import Twins

STREAM_COMMANDS = (
    *(b"xadd", b"xlen", b"xrange", b"xrevrange", b"xread", b"xreadgroup", b"xgroup", b"xack", b"xdel", b"xtrim"),
    *(b"xpending", b"xclaim", b"xautoclaim", b"xinfo", b"xsetid"),
)
OTHER_COMMANDS = (
    *(b"multi", b"exec", b"discard", b"watch", b"unwatch", b"del", b"rename", b"renamenx", b"copy", b"move", b"swapdb"),
    *(b"expire", b"pexpire", b"ttl", b"persist", b"type", b"exists", b"dump", b"restore", b"keys", b"scan", b"select"),
)

# (stream-node-max-bytes, stream-node-max-entries)
NODE_LIMITS = ((4096, 100), (4096, 3), (4096, 1), (0, 0), (100, 10))


class StreamEpisode(Episode):
    """Commands of several clients on streams and keys."""

    commands = 500

    def __init__(self, seed: int, headrace_port: int, redis_port: int, stack: ExitStack) -> None:
        self.writer = CommandWriter(seed)
        super().__init__(seed, self.writer)
        max_bytes, max_entries = NODE_LIMITS[seed % len(NODE_LIMITS)]
        for port in (headrace_port, redis_port):
            with RawClient(port) as client:
                client.run("FLUSHALL")
                client.run("CONFIG", "SET", "stream-node-max-bytes", max_bytes)
                client.run("CONFIG", "SET", "stream-node-max-entries", max_entries)
        *self.clients, self.overseer = [
            stack.enter_context(closing(Twins(headrace_port, redis_port, protocol))) for protocol in (2, 3, 2, 3, 3)
        ]

    def take_step(self) -> None:
        number = self.random.choices(range(len(self.clients)), (6, 6, 1, 1))[0]
        twins = self.clients[number]
        command = self.choose(twins)
        if not twins.may_be_asked(command):
            return
        self.latest.append(f"client {number}: " + " ".join(map(repr, command)))
        reply = twins.ask(command)
        self.count(command, reply)
        name = command[0].lower()
        if name == b"dump" and isinstance(reply, str) and reply.startswith("$") and reply != "$-1":
            self.writer.payloads.append(reply[1:].encode("latin-1"))
        if name == b"exec" and isinstance(reply, list):
            self.align_everything()

    def choose(self, twins: Twins) -> Command:
        """Choose what a client sends: seldom a word about transactions, else a command, sometimes a wrong one."""
        roll = self.random.random()
        if twins.queued is None and roll < 0.04:
            return [self.random.choice((b"MULTI", b"MULTI", b"WATCH", b"EXEC", b"UNWATCH", b"DISCARD"))] + (
                [] if roll < 0.03 else [b"s1"]
            )
        if twins.queued is not None and roll < 0.2:
            return [self.random.choice((b"EXEC", b"EXEC", b"EXEC", b"EXEC", b"DISCARD", b"MULTI", b"UNWATCH"))]
        if roll < 0.07:
            return [b"WATCH", b"s1", b"s2"]
        return self.write(roll)

    def align_everything(self) -> None:
        """Tell 7.0.15 after a transaction what it could not be told in between."""
        for database in (b"0", b"1"):
            self.overseer.ask([b"SELECT", database])
            for key in self.overseer.list_keys():
                self.overseer.align_counts(key, capped=False)

    def compare_everything(self) -> None:
        """Compare all that can be asked about every key."""
        for database in (b"0", b"1"):
            self.overseer.ask([b"SELECT", database])
            self.overseer.ask([b"KEYS", b"*"])
            for key in self.overseer.list_keys():
                for command in ([b"TYPE", key], [b"PTTL", key], [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]):
                    self.latest.append(" ".join(map(repr, command)))
                    self.overseer.ask(command)


STREAMS = Campaign(StreamEpisode, episodes=80)


@pytest.mark.parametrize("seed", STREAMS.seeds)
def test_random_commands_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, seed: int
) -> None:
    STREAMS.run(headrace_server, redis_server, seed)


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_the_random_commands_reach_every_command_with_and_without_success(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    answers = Answers()
    episodes = STREAMS.episodes // 4
    for seed in range(episodes):
        answers += STREAMS.run(headrace_server, redis_server, ~seed)
    assert sum(answers.values()) > 0.9 * StreamEpisode.commands * episodes
    for name in STREAM_COMMANDS:
        assert answers[name, True] >= 30, f"{name!r} was answered {answers[name, True]} times"
        assert answers[name, False] >= 5, f"{name!r} was refused {answers[name, False]} times"
    for name in OTHER_COMMANDS:
        assert answers[name, True] >= 5, f"{name!r} was answered {answers[name, True]} times"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_millions_of_random_commands_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    STREAMS.run_millions(headrace_server, redis_server)
