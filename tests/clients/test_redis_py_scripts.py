"""redis-py's scripts and locks, which are made of scripts, on Headrace."""

import threading
import time

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError

from headrace.engine import REDIS_VERSION


@pytest.fixture(params=[2, 3])
def client(request: pytest.FixtureRequest, headrace_server: redis.Redis) -> redis.Redis:
    port = headrace_server.connection_pool.connection_kwargs["port"]
    return redis.Redis(port=port, protocol=request.param)


def test_a_registered_script_is_loaded_when_it_is_missing(client: redis.Redis) -> None:
    add = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["n"], args=[5]) == 5
    client.script_flush()
    assert add(keys=["n"], args=[2]) == 7
    assert client.script_exists(add.sha) == [True]
    with pytest.raises(NoScriptError):
        client.evalsha("0" * 40, 0)


def test_a_script_in_a_pipeline(client: redis.Redis) -> None:
    add = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    client.script_flush()
    with client.pipeline() as pipe:
        pipe.set("n", 1)
        add(keys=["n"], args=[5], client=pipe)
        pipe.get("n")
        assert pipe.execute() == [True, 6, b"6"]


def test_bytes_come_back_as_they_were(client: redis.Redis) -> None:
    everything = bytes(range(256))
    assert client.eval("return {KEYS[1], ARGV[1]}", 1, everything, everything[::-1]) == [everything, everything[::-1]]
    assert client.eval("return redis.REDIS_VERSION", 0) == REDIS_VERSION


def test_an_error_of_a_script_is_raised(client: redis.Redis) -> None:
    with pytest.raises(ResponseError, match="user_script:1: no"):
        client.eval("error('no')", 0)


def test_a_lock_is_held_by_one_at_a_time(client: redis.Redis) -> None:
    inside: list[int] = []
    most = []

    def work(number: int) -> None:
        for _ in range(5):
            with client.lock("lock", timeout=20, sleep=0.005):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.002)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20


def test_a_lock_is_released_extended_and_renewed_by_its_owner_only(client: redis.Redis) -> None:
    lock, thief = client.lock("lock", timeout=10), client.lock("lock", timeout=10)
    assert lock.acquire(blocking=False)
    assert not thief.acquire(blocking=False)
    assert lock.owned()
    assert lock.extend(50)
    assert 50_000 < client.pttl("lock") <= 60_000
    assert lock.extend(20, replace_ttl=True)
    assert 10_000 < client.pttl("lock") <= 20_000
    assert lock.reacquire()
    assert client.pttl("lock") <= 10_000
    client.set("lock", "somebody else's")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    with pytest.raises(LockError):
        lock.release()
