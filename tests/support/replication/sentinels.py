"""Three servers and three of Debian's Sentinels that watch them, all real processes with configuration files.

    servers     0 is the master at the beginning, 1 and 2 follow it
    sentinels   a quorum of two; a server is down when it has not answered for `DOWN_AFTER_MS`

A process can be killed, stopped, continued and started again; it keeps its port, its file and its data.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from support.patience import PATIENCE_S, await_that
from support.ports import free_port

MASTER = "orders"
DOWN_AFTER_MS = 1500
QUICK_S = 2.0
SERVER_PORT, SENTINEL_PORT = 6379, 26379  # on a machine of their own

# A Sentinel asks, tells and puts servers right after some of these; its defaults would make a failover take 20 seconds.
# It trusts nobody for a while (tilt) when its own clock has jumped, which it does when the machine is busy.
HURRY = ("info-period", "1000", "publish-period", "500", "tilt-period", "1000", "min-link-reconnect-period", "1000")


class Host(NamedTuple):
    """Where processes are started, and what before their own command line puts them there."""

    address: str
    command: tuple[str, ...] = ()
    has_own_ports: bool = False


LOCAL = Host("127.0.0.1")


class ConfiguredProcess:
    """A program that is given a configuration file, which it may rewrite."""

    def __init__(
        self,
        directory: Path,
        program: list[str],
        settings: dict[str, str],
        *,
        address: str = LOCAL.address,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self.address = address
        self.port = port or free_port()
        self.file = directory / "server.conf"
        own = {"port": str(self.port), "bind": address, "dir": str(directory), "protected-mode": "no", **settings}
        self.file.write_text("".join(f"{name} {value}\n" for name, value in own.items()))
        self._program = program
        self._environment = {**os.environ, **(environment or {})}
        self._log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._program, str(self.file)],
                cwd=self.file.parent,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def client(self) -> redis.Redis:
        return redis.Redis(
            self.address,
            self.port,
            protocol=2,
            decode_responses=True,
            socket_timeout=QUICK_S,
            retry=Retry(NoBackoff(), 0),
        )

    def answers(self) -> bool:
        with self.client() as client, suppress(redis.RedisError):
            return bool(client.ping())
        return False

    def role(self) -> str:
        """The part of a server; empty where it does not answer."""
        with self.client() as client, suppress(redis.RedisError):
            return str(client.role()[0])
        return ""

    def follows(self, master: "ConfiguredProcess") -> bool:
        """Whether this is a replica of a server, and the link is up."""
        with self.client() as client, suppress(redis.RedisError):
            told = client.info("replication")
            is_its = (told.get("master_host"), told.get("master_port")) == (master.address, master.port)
            return is_its and told.get("master_link_status") == "up"
        return False

    @property
    def log(self) -> str:
        return self._log.read_text()


class WatchedServers:
    """See the module."""

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str],
        *,
        hosts: Sequence[Host],
        priorities: Sequence[int],
        environments: Sequence[Mapping[str, str]],
    ) -> None:
        serve = [sys.executable, "-m", "headrace.cli.main", "serve"]
        given = {"appendonly": "yes", "appendfsync": "always", **settings}
        self.servers: list[ConfiguredProcess] = []
        self.sentinels: list[ConfiguredProcess] = []
        for number, host in enumerate(hosts):
            if self.servers:
                given["replicaof"] = f"{self.servers[0].address} {self.servers[0].port}"
            given["replica-priority"] = str(priorities[number])
            server = ConfiguredProcess(
                directory / f"server{number}",
                [*host.command, *serve],
                given,
                address=host.address,
                port=SERVER_PORT if host.has_own_ports else None,
                environment=environments[number],
            )
            self.servers.append(server)
        watched = {
            "sentinel monitor": f"{MASTER} {self.servers[0].address} {self.servers[0].port} 2",
            "sentinel down-after-milliseconds": f"{MASTER} {DOWN_AFTER_MS}",
            "sentinel failover-timeout": f"{MASTER} 10000",
        }
        for number, host in enumerate(hosts):
            sentinel = ConfiguredProcess(
                directory / f"sentinel{number}",
                [*host.command, "redis-sentinel"],
                watched,
                address=host.address,
                port=SENTINEL_PORT if host.has_own_ports else None,
            )
            self.sentinels.append(sentinel)

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            await_that(server.answers)
        await_that(lambda: all(server.follows(self.servers[0]) for server in self.servers[1:]))
        for sentinel in self.sentinels:
            self.start_sentinel(sentinel)
        await_that(self.is_known)

    def start_sentinel(self, sentinel: ConfiguredProcess) -> None:
        """Start a Sentinel, and have it hurry, which its file does not keep."""
        sentinel.start()
        await_that(sentinel.answers)
        with sentinel.client() as client:
            client.execute_command("SENTINEL", "DEBUG", *HURRY)

    @property
    def url(self) -> str:
        """The url by which clients find the master."""
        places = ",".join(f"{each.address}:{each.port}" for each in self.sentinels)
        return f"sentinel://{places}/{MASTER}"

    def is_known(self) -> bool:
        """Whether each Sentinel knows both others, and every server."""
        return all(self._known_by(sentinel) == (2, 2) for sentinel in self.sentinels)

    def _known_by(self, sentinel: ConfiguredProcess) -> tuple[int, int]:
        with sentinel.client() as client, suppress(redis.RedisError):
            replicas = [each for each in client.sentinel_slaves(MASTER) if not each["is_sdown"]]
            others = [each for each in client.sentinel_sentinels(MASTER) if not each["is_sdown"]]
            return len(others), len(replicas)
        return 0, 0

    def manager(self, timeout_s: float = QUICK_S) -> Sentinel:
        """A client of redis-py's that finds the master."""
        places = [(each.address, each.port) for each in self.sentinels]
        return Sentinel(places, socket_timeout=timeout_s, protocol=2, decode_responses=True)

    def master(self) -> ConfiguredProcess | None:
        """The server that two Sentinels call the master, and which is one; None in between."""
        told: list[tuple[str, int]] = []
        for sentinel in self.sentinels:
            with sentinel.client() as client, suppress(redis.RedisError):
                address, port = client.sentinel_get_master_addr_by_name(MASTER)
                told.append((address, int(port)))
        for server in self.servers:
            if told.count((server.address, server.port)) >= 2 and server.role() == "master":
                return server
        return None

    def await_master_other_than(self, former: ConfiguredProcess) -> ConfiguredProcess:
        await_that(lambda: self.master() not in (None, former))
        master = self.master()
        assert master is not None
        return master

    def is_settled(self) -> bool:
        """Whether there is one master, and both others follow it, and all Sentinels have noticed."""
        master = self.master()
        if master is None:
            return False
        others = [server for server in self.servers if server is not master]
        return all(server.follows(master) for server in others) and self.is_known()

    def close(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.kill()


@contextmanager
def watched_servers(
    directory: Path,
    *,
    hosts: Sequence[Host] = (LOCAL,) * 3,
    priorities: Sequence[int] = (100, 0, 100),
    environments: Sequence[Mapping[str, str]] = ({},) * 3,
    **settings: str,
) -> Iterator[WatchedServers]:
    """Start them; at the end, kill them. Where nothing else is said, server 1 never becomes the master."""
    if shutil.which("redis-sentinel") is None:
        pytest.skip("there is no redis-sentinel: apt-get install redis-sentinel brings it")
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    watched = WatchedServers(directory, given, hosts=hosts, priorities=priorities, environments=environments)
    try:
        watched.start()
        yield watched
    finally:
        watched.close()
