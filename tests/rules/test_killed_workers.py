"""A hundred worker processes that are killed, and the server with them: nothing is lost, stuck or in two places."""

from pathlib import Path

import redis

from support.patience import await_that
from support.replication.server_pair import start_again
from support.server_process import ServerProcess
from support.worker_process import WorkerProcess

KILLS = 100
MESSAGES = 400
POISON = {number for number in range(MESSAGES) if number % 97 == 5}


def noted(path: Path) -> set[int]:
    return {int(line) for line in path.read_text().split()} if path.exists() else set()


def test_a_hundred_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = redis.Redis(port=server.port)
        client.execute_command(*["HEADRACE", "POLICY", "SET", "q", "DROP", "ACKED"])
        rule = "VISIBILITY 300ms RETRY 5ms 50ms MAXDELIVERIES 3 CONSUMERTTL 2s CREATE FROM 0"
        client.execute_command(*["HEADRACE", "POLICY", "SET", "q", "GROUP", "workers"], *rule.split())
        words = ("killed_workers.py", str(server.port), str(tmp_path), str(KILLS))
        with WorkerProcess(tmp_path / "workers.log", server.port, *words):
            for number in range(MESSAGES):
                client.xadd("q", {"n": number, **({"poison": 1} if number in POISON else {})})
                if number == MESSAGES // 2:
                    await_that(lambda: len(noted(tmp_path / "acknowledged")) > MESSAGES // 4)
                    start_again(server)
                    client = redis.Redis(port=server.port)
            await_that((tmp_path / "killed").exists)
            await_that(lambda: client.xlen("q") == 0)  # everything is acknowledged, by a worker or for a dead letter
            assert client.xpending("q", "workers")["pending"] == 0
            assert not client.exists("headrace:{q}:retries")
            # Those who were killed leave; those who wait for messages stay.
            await_that(lambda: len(client.xinfo_consumers("q", "workers")) <= 8)
        letters = [fields for _, fields in client.xrange("q:dead")]
        dead = {int(fields[b"n"]) for fields in letters}
        assert len(dead) == len(letters)
        assert dead >= POISON
        assert all(fields[b"headrace-deliveries"] == b"3" for fields in letters)
        assert not dead & noted(tmp_path / "acknowledged")
        assert dead | noted(tmp_path / "processed") == set(range(MESSAGES))
