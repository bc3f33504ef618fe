"""Every workload runs against Headrace and against redis-server, and says something sane of both."""

import pytest

from headrace.measuring.errors import NoSuchWorkload
from headrace.measuring.rounds import alternated, measure
from headrace.measuring.targets import HEADRACE, REDIS, Target
from headrace.measuring.workloads import Shape, Streams, Workload, catalogue, chosen, places

STREAMS = Streams(2_000, Shape(fields=2, value_size=20))
ALL = catalogue(STREAMS, clients=5, pipeline=3)


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.slug)
def test_a_workload_measures_both_servers(workload: Workload, targets: list[Target]) -> None:
    told: list[str] = []
    found = measure(targets, workload, rounds=2, seconds=0.01, told=told.append)
    assert len(told) == 4
    assert len(found) == len(workload.figures)
    for finding in found:
        assert set(finding.rounds) == {HEADRACE, REDIS}
        assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in finding.rounds.values())
        ratio = finding.ratio(HEADRACE, REDIS)
        assert ratio is not None
        assert 0 < ratio.low <= ratio.high


def test_a_measurement_leaves_no_keys(targets: list[Target]) -> None:
    for target in targets:
        target.client.set("mine", "1")
        measure([target], chosen(ALL, ["xdel"])[0], rounds=1, seconds=0.01, told=lambda _: None)
        assert target.client.dbsize() > 1
        target.clean()
        assert target.client.keys() == [b"mine"]


def test_what_removes_works_on_a_copy_and_removes_everything(targets: list[Target]) -> None:
    for workload in chosen(ALL, ["xdel"]):
        measure(targets, workload, rounds=1, seconds=60, told=lambda _: None)
        for target in targets:
            assert target.client.xlen(target.key("copied")) == 0
            assert target.client.xlen(STREAMS.filled(target)) == STREAMS.messages


def test_autoclaim_takes_everything_from_one_consumer_to_the_other(targets: list[Target]) -> None:
    (workload, _) = chosen(ALL, ["xautoclaim"])
    for owner in (b"c1", b"c0"):
        measure(targets, workload, rounds=1, seconds=60, told=lambda _: None)
        for target in targets:
            consumers = target.client.xpending(STREAMS.pending(target), "g")["consumers"]
            assert {each["name"]: each["pending"] for each in consumers} == {owner: STREAMS.messages}


def test_workloads_are_chosen_by_name_and_by_family() -> None:
    assert [each.slug for each in chosen(ALL, ["xrange"])] == ["xrange-1", "xrange-100", "xrange-10000"]
    assert [each.slug for each in chosen(ALL, ["XLEN", "wake-10"])] == ["wake-10", "xlen"]
    assert chosen(ALL, []) == ALL
    with pytest.raises(NoSuchWorkload, match=r"no workload 'get'; there are xadd,"):
        chosen(ALL, ["get"])


def test_rounds_alternate() -> None:
    assert [alternated(["a", "b"], turn) for turn in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]


def test_reads_begin_where_enough_follows() -> None:
    assert max(places(1_000, 100)) < 900
    assert set(places(10, 100)) == {0}
