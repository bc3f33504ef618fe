"""Streams that are mostly on disk, against a live redis-server 7.0.15: the same replies, to the byte.

    HEADRACE_SEED=n      run only the episode of that seed
    HEADRACE_LONG=1      millions of commands, of seeds never used before

The server moves nodes to segments after each write, and soon forgets what it has read, so that nearly every command
waits for the disk: see cold_launcher. Some commands run inside a script. Now and then the data are saved, and loaded
again from a snapshot or from append-only files. In the end a Headrace and a Redis that follow have the same.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from support.campaign import LONG, SEED
from support.episode import Campaign
from support.patience import await_that
from support.random_commands import Command
from support.raw_client import RawClient
from support.redis_process import RedisProcess
from support.replication.server_pair import Replica, await_same
from support.server_process import ServerProcess
from support.stream_episode import StreamEpisode
from support.twins import Twins

LAUNCHER = (str(Path(__file__).parents[1] / "support" / "cold_launcher.py"),)
FLAGS = (
    *("--maxmemory", "1", "--maxmemory-policy", "offload", "--enable-debug-command", "yes", "--save", ""),
    *("--appendonly", "yes", "--appendfsync", "no", "--repl-diskless-sync-delay", "0"),
)
MEMORY = (1, 100, 500)  # bytes of nodes that need not move

IN_A_SCRIPT = b"return redis.pcall(unpack(ARGV))"
# Replies that come through Lua as they were: XPENDING has a null that is none of a script.
SCRIPTED = {
    *(b"xadd", b"xlen", b"xrange", b"xrevrange", b"xread", b"xreadgroup", b"xgroup", b"xack", b"xdel", b"xtrim"),
    *(b"xclaim", b"xautoclaim", b"xinfo", b"xsetid"),
}
ONLY_OF_SCRIPTS = (  # refusals that are worded otherwise elsewhere
    b"-ERR Wrong number of args calling Redis command from script",
    b"-ERR Unknown Redis command called from script",
    b"-ERR This Redis command is not allowed from script",
)


class ScriptingClient(RawClient):
    """Sends some of its requests inside a script, outside of transactions."""

    def __init__(self, port: int, episode: StreamEpisode) -> None:
        super().__init__(port)
        self._episode = episode
        self._queues = False
        self._inside: Command | None = None

    def send(self, *commands: list[bytes]) -> None:
        (command,) = commands
        name = command[0].lower()
        self._queues = name == b"multi" or (self._queues and name not in (b"exec", b"discard"))
        scripted = name in SCRIPTED and not self._queues and b"block" not in map(bytes.lower, command)
        self._inside = command if scripted and self._episode.random.random() < 0.25 else None
        super().send([b"EVAL", IN_A_SCRIPT, b"0", *command] if self._inside else command)

    def reply(self) -> bytes:
        reply = super().reply()
        inside, self._inside = self._inside, None
        if inside is not None and reply.startswith(ONLY_OF_SCRIPTS):
            super().send(inside)
            return super().reply()
        if inside is not None and inside[0].lower() not in (b"xadd", b"xinfo"):
            return reply.replace(b"$-1\r\n", b"*-1\r\n")  # a list that is missing: Lua has one null
        return reply


class ColdEpisode(StreamEpisode):
    """The same commands; some in scripts, and the data saved and loaded in between."""

    commands = 250
    node_limits = ((4096, 1), (4096, 2), (4096, 3), (60, 100))

    def __init__(self, seed: int, headrace_port: int, redis_port: int, stack: ExitStack) -> None:
        super().__init__(seed, headrace_port, redis_port, stack)
        self.host = stack.enter_context(RawClient(headrace_port))
        self.host.run("CONFIG", "SET", "maxmemory", MEMORY[seed % len(MEMORY)])
        for twins in self.clients[::2]:
            twins.ours.close()
            twins.ours = ScriptingClient(headrace_port, self)

    def choose(self, twins: Twins) -> Command:
        return self.writer.append() if self.random.random() < 0.3 else super().choose(twins)

    def take_step(self) -> None:
        if self.random.random() < 0.02:
            self.save_and_load()
        super().take_step()

    def save_and_load(self) -> None:
        words = self.random.choice(("SAVE", "BGREWRITEAOF", "DEBUG RELOAD", "DEBUG LOADAOF"))
        if words.startswith("DEBUG"):
            if any(twins.queued is not None for twins in self.clients):
                return
            for twins in self.clients:
                twins.ask([b"UNWATCH"])
        self.latest.append(words)
        reply = self.host.run(*words.split())
        assert reply.startswith((b"+OK", b"+Background")) or b"already in progress" in reply, reply


COLD = Campaign(ColdEpisode, episodes=16)


@pytest.fixture(scope="module")
def cold_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cold"), *FLAGS, launcher=LAUNCHER) as server:
        yield server


@pytest.fixture
def cold_server(cold_process: ServerProcess) -> Iterator[redis.Redis]:
    with cold_process.client() as client:
        client.flushall()
        yield client


def offloaded_bytes(server: redis.Redis) -> int:
    return int(server.info("persistence")["headrace_offloaded_bytes"])


@pytest.mark.parametrize("seed", COLD.seeds)
def test_streams_on_disk_answer_as_those_of_redis(
    cold_server: redis.Redis, redis_server: redis.Redis, seed: int
) -> None:
    before = offloaded_bytes(cold_server)
    COLD.run(cold_server, redis_server, seed)
    assert offloaded_bytes(cold_server) > before


def test_who_follows_has_what_is_on_disk(
    cold_process: ServerProcess, cold_server: redis.Redis, redis_server: redis.Redis, tmp_path: Path
) -> None:
    """A Headrace with as little memory follows from the beginning; it, and others that come late, have the same."""
    (tmp_path / "early").mkdir()
    follow = ("--replicaof", "127.0.0.1", str(cold_process.port))
    with ServerProcess(tmp_path / "early", *FLAGS, *follow, launcher=LAUNCHER) as process, process.client() as early:
        for seed in COLD.seeds[:3]:
            COLD.run(cold_server, redis_server, seed)
        for number in range(1, 200):
            cold_server.xadd("last", {"n": number})
        await_same(early, cold_server)
        await_that(lambda: offloaded_bytes(early) > 0)
        await_same(early, cold_server)
        with RedisProcess(tmp_path / "redis", "--replicaof", f"127.0.0.1 {cold_process.port}") as late:
            await_same(late.client(), cold_server, of_redis=True)
        with Replica(tmp_path / "late", cold_process.port, "--appendonly", "no") as replica:
            await_same(replica.client(), cold_server)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_millions_of_commands_on_streams_on_disk(cold_server: redis.Redis, redis_server: redis.Redis) -> None:
    COLD.run_millions(cold_server, redis_server)
