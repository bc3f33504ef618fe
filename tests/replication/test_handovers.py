"""FAILOVER again and again between three servers, in chains, while a client writes: nothing is lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random, SystemRandom
from threading import Event, Thread

import pytest
import redis

from support.campaign import LONG, SEED
from support.patience import PATIENCE_S, await_that
from support.server_process import ServerProcess

HANDOVERS = 300 if LONG else 8


class Servers:
    """Three servers, the first of which is the master at the beginning."""

    def __init__(self, servers: list[ServerProcess]) -> None:
        self.clients = {server.port: server.client() for server in servers}
        self.ports = list(self.clients)

    def replication(self, port: int) -> dict[str, object]:
        return dict(self.clients[port].info("replication"))

    def follows(self, port: int, master: int | None = None) -> bool:
        """Whether a server has a link to a master, to whichever or to this one."""
        state = self.replication(port)
        return state.get("master_link_status") == "up" and master in (None, state["master_port"])

    def find_master(self) -> int:
        return next(port for port in self.ports if self.replication(port)["role"] == "master")


@pytest.fixture(params=["0", "1"], ids=["confirmed by the master", "confirmed by a replica, too"])
def servers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    with ExitStack() as stack:
        started: list[ServerProcess] = []
        for name in ("one", "two", "three"):
            (tmp_path / name).mkdir()
            following = ("--replicaof", "127.0.0.1", str(started[0].port)) if started else ()
            arguments = ("--repl-diskless-sync-delay", "0", "--min-replicas-to-confirm", request.param, *following)
            started.append(stack.enter_context(ServerProcess(tmp_path / name, *arguments)))
        servers = Servers(started)
        await_that(lambda: all(servers.follows(port) for port in servers.ports[1:]))
        yield servers


def write_until(over: Event, servers: Servers, acknowledged: list[str]) -> None:
    """Add entries at the master, whichever it is."""
    clients = {port: redis.Redis(port=port, protocol=2, decode_responses=True) for port in servers.ports}
    port = servers.ports[0]
    while not over.is_set():
        try:
            acknowledged.append(str(clients[port].xadd("s", {"n": len(acknowledged)})))
        except redis.exceptions.ReadOnlyError:
            masters = (each for each, client in clients.items() if client.info("replication")["role"] == "master")
            port = next(masters, port)


def test_many_handovers_lose_nothing_and_need_no_snapshot(servers: Servers) -> None:
    seed = SystemRandom().randrange(1 << 32) if SEED is None else SEED
    random = Random(seed)
    acknowledged: list[str] = []
    over = Event()
    writer = Thread(target=write_until, args=(over, servers, acknowledged))
    writer.start()
    try:
        for _ in range(HANDOVERS):
            hand_over(servers, random)
            written = len(acknowledged)
            await_that(lambda written=written: len(acknowledged) > written + 10)  # type: ignore[misc]
    finally:
        over.set()
        writer.join(PATIENCE_S)
    master = servers.find_master()
    replicas = [port for port in servers.ports if port != master]
    for port in replicas:
        servers.clients[port].execute_command("REPLICAOF", "127.0.0.1", master)
        await_that(lambda port=port: servers.clients[port].xlen("s") == len(acknowledged))  # type: ignore[misc]
    for client in servers.clients.values():
        assert [each for each, _ in client.xrange("s")] == acknowledged, f"HEADRACE_SEED={seed}"
    full = sum(client.info("stats")["sync_full"] for client in servers.clients.values())
    assert full == 2, f"HEADRACE_SEED={seed}"


def hand_over(servers: Servers, random: Random) -> None:
    """Make a replica the master; the third server follows it, or remains where it is, behind the former master."""
    former = servers.find_master()
    chosen = random.choice([port for port in servers.ports if servers.follows(port, former)])
    servers.clients[former].execute_command("FAILOVER", "TO", "127.0.0.1", chosen, "TIMEOUT", 60_000)
    await_that(lambda: servers.follows(former, chosen))
    third = next(port for port in servers.ports if port not in (former, chosen))
    if random.random() < 0.7:
        servers.clients[third].execute_command("REPLICAOF", "127.0.0.1", chosen)
    await_that(lambda: servers.follows(third))
