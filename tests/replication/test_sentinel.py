"""redis-sentinel watches Headrace servers, makes a replica the master, and the former master its replica."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from redis.sentinel import MasterNotFoundError, Sentinel

from support.patience import await_that
from support.ports import free_port
from support.redis_process import REDIS_SERVER
from support.server_process import ServerProcess

SETTINGS = """port {port}
sentinel monitor streams 127.0.0.1 {master} 2
sentinel down-after-milliseconds streams 1000
sentinel failover-timeout streams 3000
"""


class SentinelProcess:
    """A redis-sentinel that watches a master under the name `streams`."""

    def __init__(self, directory: Path, master: int) -> None:
        if REDIS_SERVER is None:
            pytest.skip("there is no redis-server that could be a sentinel: apt-get install redis-server brings one")
        directory.mkdir()
        self.port = free_port()
        file = directory / "sentinel.conf"
        file.write_text(SETTINGS.format(port=self.port, master=master))
        self.process = subprocess.Popen(
            [REDIS_SERVER, str(file), "--sentinel"], cwd=directory, stdout=subprocess.DEVNULL
        )

    def __enter__(self) -> "SentinelProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def knows(self) -> tuple[int, int]:
        """Count the replicas and the other sentinels that it has found."""
        try:
            with redis.Redis(port=self.port, decode_responses=True) as client:
                [state] = client.sentinel_masters().values()
        except (redis.ConnectionError, ValueError):
            return 0, 0
        return int(state["num-slaves"]), int(state["num-other-sentinels"])


def master_port(finder: Sentinel) -> int | None:
    try:
        return int(finder.discover_master("streams")[1])
    except MasterNotFoundError:
        return None


def test_a_master_that_dies_is_replaced_and_follows_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers: list[ServerProcess] = []
        for name in ("one", "two", "three"):
            directory = tmp_path / name
            directory.mkdir()
            (directory / "redis.conf").write_text("repl-diskless-sync-delay 0\n")
            following = ("--replicaof", "127.0.0.1", str(servers[0].port)) if servers else ()
            servers.append(stack.enter_context(ServerProcess(directory, "redis.conf", *following)))
        former = servers[0]
        sentinels = [stack.enter_context(SentinelProcess(tmp_path / f"s{n}", former.port)) for n in range(3)]
        await_that(lambda: all(each.knows() == (2, 2) for each in sentinels))
        finder = Sentinel([("127.0.0.1", each.port) for each in sentinels])
        writer = finder.master_for("streams", decode_responses=True)
        written = [writer.xadd("s", {"a": number}) for number in range(50)]
        assert writer.wait(2, 60_000) == 2
        former.process.kill()
        await_that(lambda: master_port(finder) not in (None, former.port))
        port = master_port(finder)
        successor = next(server for server in servers if server.port == port).client()
        written.append(writer.xadd("s", {"a": "after"}))
        assert [each for each, _ in successor.xrange("s")] == written
        again = stack.enter_context(ServerProcess(former.directory, "redis.conf", port=former.port))
        await_that(lambda: again.client().info("replication").get("master_link_status") == "up")
        await_that(lambda: again.client().xlen("s") == len(written))
        assert successor.info("stats")["sync_full"] == 0
        assert f"replicaof 127.0.0.1 {port}" in (former.directory / "redis.conf").read_text()
