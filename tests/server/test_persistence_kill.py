"""kill -9, again and again on the same directory: what was acknowledged is there after each of them."""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import redis

from support.acknowledged_load import Load, prepare
from support.campaign import LONG, SEED
from support.filled_server import assert_filled, children_of, fill, kill
from support.patience import PATIENCE_S
from support.server_process import ServerProcess

KILLS = 200 if LONG else 20


def connect(server: ServerProcess) -> redis.Redis:
    return redis.Redis(port=server.port, protocol=2, decode_responses=True, socket_timeout=PATIENCE_S, retry=None)


def test_what_was_acknowledged_survives_kill_after_kill(tmp_path: Path) -> None:
    seed = SEED if SEED is not None else 4
    chance, load = random.Random(seed), Load(seed)
    counts = []
    for number in range(KILLS):
        with ServerProcess(tmp_path) as server:
            with server.client() as client:
                load.check(client) if number else prepare(client)
            with load.running(partial(connect, server)):
                time.sleep(chance.uniform(0.1, 0.35))
                kill(server)
        counts.append(load.acknowledged)
    with ServerProcess(tmp_path) as server, server.client() as client:
        load.check(client)
    print(f"{KILLS} kills, {load.acknowledged} acknowledged operations")
    assert all(earlier < later for earlier, later in pairwise(counts)), counts
    assert load.acknowledged > 100 * KILLS


def test_a_kill_in_the_middle_of_a_rewrite_loses_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        fill(server, 1, 100_001)
        with server.client() as client:
            client.bgrewriteaof()
            while not (children := children_of(server)):
                assert client.info("persistence")["aof_rewrite_in_progress"] == 1, "the rewrite was too fast to be seen"
            (child,) = children
            temporary = tmp_path / "appendonlydir" / f"temp-rewriteaof-{server.process.pid}.rdb"
            while not temporary.exists():
                assert client.info("persistence")["aof_rewrite_in_progress"] == 1, "the rewrite was too fast to be seen"
            os.kill(child, signal.SIGSTOP)
            try:
                fill(server, 100_001, 101_001)
                assert client.info("persistence")["aof_rewrite_in_progress"] == 1
                kill(server)
                with ServerProcess(tmp_path) as again, again.client() as other:
                    assert_filled(other, 101_001)
                    assert not temporary.exists()
                    other.bgrewriteaof()
                    fill(again, 101_001, 101_101)
                    again.await_log("Background AOF rewrite finished")
                    kill(again)
            finally:
                os.kill(child, signal.SIGKILL)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 101_101)


def test_kills_while_loading_lose_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        fill(server, 1, 50_001)
        with server.client() as client:
            client.bgrewriteaof()
        server.await_log("Background AOF rewrite finished")
        fill(server, 50_001, 250_001)
        kill(server)
    loading = 0
    for delay_ms in (0, 1, 5, 20):
        starting = ServerProcess(tmp_path)
        try:
            loading += sees_loading(starting)
            time.sleep(delay_ms / 1000)
        finally:
            kill(starting)
    assert loading > 0
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 250_001)


def test_a_producer_that_is_back_before_the_server_is_ready_loses_nothing(tmp_path: Path) -> None:
    acknowledged: set[bytes] = set()
    with ServerProcess(tmp_path) as server:
        fill(server, 1, 50_001)
    servers = [ServerProcess(tmp_path)]
    over = threading.Event()

    def produce() -> None:
        while not over.is_set():
            with suppress(OSError), servers[-1].raw() as client:
                while reply := client.run("XADD", "s", "*", "n", str(len(acknowledged))):
                    if not reply.startswith(b"-LOADING"):
                        acknowledged.add(reply.split()[1])

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for _ in range(KILLS):
            with servers[-1] as server:
                enough, deadline = len(acknowledged) + 10, time.monotonic() + PATIENCE_S
                while len(acknowledged) < enough:
                    assert time.monotonic() < deadline, "the producer does not come back"
                    time.sleep(0.001)
                kill(server)
            servers.append(ServerProcess(tmp_path))
    finally:
        over.set()
        kill(servers[-1])
        producer.join()
    with ServerProcess(tmp_path) as server, server.client() as client:
        kept = {entry_id.encode() for entry_id, _ in client.xrange("s")}
    assert acknowledged <= kept, sorted(acknowledged - kept)[:10]


def sees_loading(server: ServerProcess) -> bool:
    """Ask as soon as it can be asked."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with server.raw() as client:
                return b"\r\nloading:1\r\n" in client.run("INFO", "persistence")
        except ConnectionError:
            time.sleep(0.002)
    raise AssertionError(f"the server does not answer:\n{server.log}")
