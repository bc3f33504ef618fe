"""Applications on redis-py alone: a lock whose holder is killed, and listeners that come and go."""

from pathlib import Path

import redis

from support.server_process import ServerProcess
from support.worker_process import WorkerProcess, await_members, await_that


def start(server: ServerProcess, tmp_path: Path, part: str, name: str, *, hold: bool = False) -> WorkerProcess:
    return WorkerProcess(tmp_path / f"{name}.log", server.port, "redis_py_app.py", part, name=name, hold=hold)


def test_a_lock_whose_holder_was_killed_is_taken_by_another(
    server: ServerProcess, client: redis.Redis, tmp_path: Path
) -> None:
    client.rpush("jobs", *range(20))
    with start(server, tmp_path, "lock", "first", hold=True) as first:
        await_that(lambda: client.scard("started") == 1, "a job has begun")
        first.kill()
    assert client.llen("in work") == 1
    with start(server, tmp_path, "lock", "second"), start(server, tmp_path, "lock", "third"):
        await_members(client, "done", {str(number) for number in range(20)})
        await_that(lambda: client.llen("in work") == 0, "nothing is in work")


def test_listeners_come_and_go(server: ServerProcess, client: redis.Redis, tmp_path: Path) -> None:
    def is_heard(by: int) -> bool:
        return bool(client.pubsub_numsub("news") == [("news", by)] and client.pubsub_numpat() == (1 if by else 0))

    with start(server, tmp_path, "listen", "first") as first:
        await_that(lambda: is_heard(1), "somebody listens")
        assert client.publish("news", "one") == 1
        assert client.publish("weather.today", "rain") == 1
        await_members(client, "heard", {"first news one", "first weather.today rain"})
        first.kill()
    await_that(lambda: is_heard(0), "nobody listens")
    assert client.publish("news", "two") == 0
    with start(server, tmp_path, "listen", "second"), start(server, tmp_path, "listen", "third"):
        await_that(lambda: is_heard(2), "two listen")
        assert client.publish("news", "three") == 2
        await_members(client, "heard", {"second news three", "third news three"})
    assert client.smembers("heard") == {
        *("first news one", "first weather.today rain"),
        *("second news three", "third news three"),
    }
