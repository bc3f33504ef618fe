"""What followers cost is measured: smaller here than `python -m bench.followers` and `bench.full_sync` do it."""

import pytest

from bench import followers, full_sync
from headrace.measuring.load import Load
from headrace.measuring.targets import Target, packed, private_headrace, private_redis, redis_command


def test_each_line_sends_all_buffers_in_their_order(targets: list[Target]) -> None:
    target = targets[0]
    lines = [target.connect() for _ in range(3)]
    try:
        load = Load([line.fileno() for line in lines])
        load.run([packed(b"MULTI"), packed(b"EXEC")], 1, 30, 60, each_line=True)
        assert (load.requests, load.errors) == (60, 0)
    finally:
        for line in lines:
            line.close()


def test_a_master_is_measured_alone_and_with_a_follower() -> None:
    alone, followed = followers.measure(private_headrace, followers.IN_MEMORY, 16, 0.2)
    assert min(alone.rate, followed.rate) > 0


@pytest.mark.parametrize("way", [followers.HERE, followers.THERE[0], followers.THERE[-1]], ids=lambda way: way.name)
def test_confirmed_writes_are_measured(way: followers.Way) -> None:
    if way.server != "Headrace" and redis_command() is None:
        pytest.skip("redis-server is not installed")
    start = private_headrace if way.server == "Headrace" else private_redis
    assert followers.measure_confirmed(start, way, 2, 0.2) > 0


def test_confirmed_writes_of_redis_py_are_measured() -> None:
    assert followers.measure_by_redis_py(private_headrace, followers.HERE, 2, 0.2) > 0


def test_a_full_synchronisation_is_measured() -> None:
    found = full_sync.synchronise(private_headrace, 2_000_000)
    assert found.seconds > 0
    assert found.size > 2_000_000
    assert found.quiet
    assert found.meanwhile
