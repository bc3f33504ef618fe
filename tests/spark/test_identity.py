"""A stream that was deleted and made anew is read from its beginning, and entries that were not read are reported."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.spark.errors import DataLost
from headrace.spark.options import read_options
from support.spark.reading import Query, add


def put(server: redis.Redis, *numbers: int, life: int = 1, key: str = "s") -> list[tuple[str, str]]:
    """Add entries whose fields are those of one life of a stream."""
    return [(key, server.xadd(key, {"life": life, "n": n}, id=f"{n}-0").decode()) for n in numbers]


def renew(server: redis.Redis, *numbers: int) -> list[tuple[str, str]]:
    """Delete a stream, and make it anew."""
    server.delete("s")
    return put(server, *numbers, life=2)


RENEWED = {
    "the same IDs": range(1, 6),
    "the same IDs and more": range(1, 9),
    "later IDs": range(6, 9),
    "later IDs, and more of them": range(6, 20),
    "earlier and later IDs": (1, 2, 9),
    "more entries between the same IDs": (1, 3, 4, 5, 6, 7),
    "a later beginning that ends later": (3, 4, 6, 7, 8, 9, 10),
    "one entry": (1,),
}


@pytest.mark.parametrize("running", ["on", "started again", "available now"])
@pytest.mark.parametrize("numbers", RENEWED.values(), ids=RENEWED.keys())
def test_a_stream_made_anew_is_read_from_its_beginning_whatever_its_ids(
    server: redis.Redis, numbers: tuple[int, ...], running: str
) -> None:
    put(server, *range(1, 6))
    query = Query(server)
    query.batch()
    expected = renew(server, *numbers)
    if running != "on":
        query.begin()
    if running == "available now":
        query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == expected
    assert query.batch() == []
    query.begin()
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == []
    more = put(server, 30, life=2)
    query.begin()
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == more, "the second life goes on like the first"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_stream_made_anew_is_read_in_batches(server: redis.Redis, limit: int) -> None:
    put(server, *range(1, 6))
    query = Query(server, maxEntriesPerTrigger="3")
    query.batch(), query.batch()
    expected = renew(server, *range(1, 12))
    query.options["maxEntriesPerTrigger"] = str(limit)
    found = []
    for _ in range(14):
        query.begin()
        query.reader.prepareForTriggerAvailableNow()
        found += query.batch()
    assert found == expected


@pytest.mark.parametrize("running", ["on", "started again", "available now"])
def test_headrace_tells_a_stream_made_anew_of_the_same_entries(headrace_server: redis.Redis, running: str) -> None:
    add(headrace_server, "1-0", "2-0")
    query = Query(headrace_server)
    for more in ([], ["3-0"], ["3-0", "4-0"]):
        headrace_server.delete("s")
        expected = add(headrace_server, "1-0", "2-0", *more)
        if running != "on":
            query.begin()
        if running == "available now":
            query.reader.prepareForTriggerAvailableNow()
        assert query.batch() == expected
        assert query.batch() == []


def test_headrace_tells_a_stream_made_anew_that_was_trimmed_as_the_old_one(headrace_server: redis.Redis) -> None:
    put(headrace_server, *range(1, 6))
    query = Query(headrace_server, failOnDataLoss="false")
    query.batch()
    renew(headrace_server, *range(1, 21))
    headrace_server.xtrim("s", minid="3-0", approximate=False)
    headrace_server.xdel("s", "5-0", "7-0")
    query.begin()
    assert query.batch() == [("s", f"{n}-0") for n in range(3, 21) if n not in {5, 7}]
    assert query.checkpoint[-1]["0"]["s"]["life"] == 1


def test_a_batch_of_available_now_reads_nothing_of_a_stream_that_was_made_anew_of_the_same_entries(
    headrace_server: redis.Redis,
) -> None:
    add(headrace_server, "1-0")
    query = Query(headrace_server, failOnDataLoss="false")
    query.reader.prepareForTriggerAvailableNow()
    headrace_server.delete("s")
    expected = add(headrace_server, "1-0")
    assert query.batch() == [], "it is left to the next query"
    query.begin()
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == expected


def test_a_stream_that_was_renamed_away_is_no_stream_of_its_next_key(headrace_server: redis.Redis) -> None:
    add(headrace_server, "1-0", "2-0"), add(headrace_server, "1-0", "2-0", key="t")
    query = Query(headrace_server)
    query.batch()
    headrace_server.rename("t", "s")
    assert query.batch() == [("s", "1-0"), ("s", "2-0")]


def test_a_user_who_may_only_read_has_digests_alone(headrace_server: redis.Redis) -> None:
    headrace_server.acl_setuser("reader", enabled=True, passwords=["+secret"], commands=["+@read", "+info"], keys=["*"])
    put(headrace_server, *range(1, 6))
    query = Query(headrace_server)
    query.options["url"] = query.options["url"].replace("//", "//reader:secret@")
    query.begin()
    assert len(query.batch()) == 5
    assert "identity" not in query.checkpoint[-1]["0"]["s"]
    expected = renew(headrace_server, *range(1, 8))
    assert query.batch() == expected
    query.options["url"] = query.options["url"].replace("reader:secret@", "")
    query.begin()
    put(headrace_server, 8, life=2)
    assert len(query.batch()) == 1
    assert "identity" in query.checkpoint[-1]["0"]["s"]
    headrace_server.acl_deluser("reader")


def test_an_identity_that_the_server_does_not_tell_any_more_is_kept(headrace_server: redis.Redis) -> None:
    put(headrace_server, 1)
    query = Query(headrace_server)
    query.batch()
    told = query.checkpoint[-1]["0"]["s"]["identity"]
    query.options["transport"] = "xrange"
    query.begin()
    put(headrace_server, 2)
    query.batch()
    assert query.checkpoint[-1]["0"]["s"]["identity"] == told


def test_a_stream_that_was_trimmed_and_is_made_anew(server: redis.Redis) -> None:
    put(server, *range(1, 21))
    query = Query(server)
    query.batch()
    server.xtrim("s", maxlen=0, approximate=False)
    assert query.batch() == []
    query.begin()
    expected = renew(server, *range(1, 31))
    assert query.batch() == expected
    server.xtrim("s", maxlen=0, approximate=False)
    expected = put(server, 31, life=2)
    query.begin()
    assert query.batch() == expected, "an emptied stream is no other one"


def test_a_key_that_was_seen_to_be_gone_holds_another_stream_afterwards_even_with_equal_entries(
    server: redis.Redis,
) -> None:
    expected = add(server, "1-0", "2-0")
    query = Query(server)
    assert query.batch() == expected
    server.delete("s")
    assert query.batch() == []
    assert query.checkpoint[-1]["0"]["s"]["gone"]
    query.begin()
    assert query.batch() == []
    add(server, "1-0", "2-0")
    assert query.batch() == expected


def test_what_a_stream_goes_through_in_one_life_makes_it_no_other(server: redis.Redis) -> None:
    put(server, *range(1, 11))
    query = Query(server)
    assert len(query.batch()) == 10
    steps: list[Callable[[], object]] = [
        lambda: server.xdel("s", "10-0"),
        lambda: server.xdel("s", "1-0", "5-0"),
        lambda: server.xtrim("s", minid="4-0", approximate=False),
        lambda: server.rename("s", "t") and server.rename("t", "s"),
        lambda: server.restore("s", 0, server.dump("s"), replace=True),
        lambda: server.xgroup_create("s", "g", "0"),
        lambda: server.execute_command("XSETID", "s", "85-0"),
        lambda: server.xtrim("s", 0, approximate=False),
    ]
    for number, step in enumerate(steps, 3):
        step()
        expected = put(server, 10 * number)
        if number % 2:
            query.begin()
        assert query.batch() == expected
        assert "life" not in query.checkpoint[-1]["0"]["s"]


def test_a_stream_that_lost_only_acknowledged_entries_is_no_other(headrace_server: redis.Redis) -> None:
    put(headrace_server, *range(1, 11))
    headrace_server.xgroup_create("s", "slow", "0")
    delivered = headrace_server.xreadgroup("slow", "c", {"s": ">"})[0][1]
    query = Query(headrace_server)
    query.batch()
    headrace_server.xack("s", "slow", *(id for id, _ in delivered if id != b"2-0"))
    headrace_server.execute_command("XTRIM", "s", "MAXLEN", "=", 0, "ACKED")
    assert [id for id, _ in headrace_server.xrange("s")] == [b"2-0"]
    query.begin()
    assert query.batch() == []
    expected = put(headrace_server, 11)
    assert query.batch() == expected


@pytest.mark.parametrize("after", ["gone", "made anew"])
@pytest.mark.parametrize("running", ["on", "started again", "available now"])
def test_entries_deleted_unread_with_their_key_are_lost_and_counted(
    server: redis.Redis, running: str, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(server, *range(1, 11))
    query = Query(server, maxEntriesPerTrigger="4")
    query.batch()
    server.delete("s")
    expected = put(server, 1, 2, life=2) if after == "made anew" else []
    if running != "on":
        query.begin()
    if running == "available now":
        query.reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=r"6 entries were deleted with stream 's' after 4-0 before the query had read"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.begin()
    assert query.batch() == expected
    assert "6 entries were deleted with stream 's' after 4-0" in caplog.text
    assert query.checkpoint[-1]["0"]["s"]["lost"] == 6
    query.begin()
    assert query.batch() == []
    expected = put(server, 3, life=2)
    assert query.batch() == expected


def test_a_new_life_is_said_even_if_nothing_is_known_to_be_lost(
    server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    put(server, 1, 2)
    query = Query(server)
    query.batch()
    renew(server, 1)
    query.batch()
    assert "stream 's' was deleted and made anew: it is read from its beginning. The old one was read up to 2-0" in (
        caplog.text
    )


def test_what_was_trimmed_unread_is_counted_in_the_offset(server: redis.Redis) -> None:
    put(server, *range(1, 11))
    query = Query(server, maxEntriesPerTrigger="4", failOnDataLoss="false")
    query.batch()
    server.xtrim("s", minid="8-0", approximate=False)
    query.batch()
    assert query.checkpoint[-1]["0"]["s"]["lost"] == 3


def test_a_batch_that_was_journaled_reads_nothing_of_another_stream(server: redis.Redis) -> None:
    """The batch is repeated after a crash, but its stream is gone by then, and another has its key."""
    put(server, 1, 2)
    query = Query(server, failOnDataLoss="false")
    query.batch()
    put(server, 3, 4)
    start = query.checkpoint[-1]
    end = json.loads(json.dumps(query.reader.latestOffset(start, query.reader.getDefaultReadLimit())))
    expected = renew(server, *range(1, 7))
    query.begin()
    assert list(query.rows(start, end)) == []
    query.checkpoint.append(end)
    assert query.batch() == expected
    assert query.checkpoint[-1]["0"]["s"]["lost"] == 2
    query.options["failOnDataLoss"] = "true"
    query.begin()
    with pytest.raises(DataLost, match="2 entries were deleted with stream 's' after 2-0"):
        list(query.rows(start, end))


def test_the_group_of_a_query_belongs_to_the_stream_that_is_there(server: redis.Redis) -> None:
    put(server, *range(1, 6))
    query = Query(server, group="spark", maxEntriesPerTrigger="3")
    query.batch(), query.batch()
    renew(server, *range(1, 10))
    query.batch()
    [group] = server.xinfo_groups("s")
    assert (group["last-delivered-id"], group["lag"]) == (b"0-0", 9), "nothing of the new one is read"
    query.batch()
    [group] = server.xinfo_groups("s")
    assert (group["last-delivered-id"], group["lag"]) == (b"3-0", 6)
    server.xgroup_destroy("s", "spark")
    query.batch()
    [group] = server.xinfo_groups("s")
    assert group["last-delivered-id"] == b"6-0", "a group that somebody destroyed is made again where the query is"


def test_a_commit_that_comes_late_does_not_touch_the_next_stream(server: redis.Redis) -> None:
    put(server, *range(1, 6))
    query = Query(server, group="spark")
    query.batch()
    renew(server, *range(1, 10))
    query.reader.commit(query.checkpoint[-1])
    assert server.xinfo_groups("s") == []


def test_an_offset_of_an_earlier_version_goes_on(server: redis.Redis) -> None:
    put(server, *range(1, 6))
    query = Query(server)
    query.checkpoint.append({"0": {"s": {"id": "3-0", "added": 3}}})
    assert query.batch() == [("s", "4-0"), ("s", "5-0")]
    query = Query(server)
    query.checkpoint.append({"0": {"s": {"id": "9-0", "added": 9, "life": 2}}})
    assert query.batch() == [("s", f"{n}-0") for n in range(1, 6)]
    assert query.checkpoint[-1]["0"]["s"]["life"] == 3
    query = Query(server)
    query.checkpoint.append({"0": {"s": {"id": "4-0"}}})
    assert query.batch() == [("s", "5-0")]


def test_a_named_position_waits_for_a_stream_that_is_not_there_yet(server: redis.Redis) -> None:
    query = Query(server, startingId="5-0")
    assert query.batch() == []
    put(server, 1, 2)
    assert query.batch() == [], "the position is before no stream, and none was deleted"
    query.begin()
    assert query.batch() == []
    expected = put(server, 6)
    assert query.batch() == expected


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 6)),
        st.tuples(st.just("batch"), st.integers(1, 8)),
        st.tuples(st.just("trim"), st.integers(0, 5)),
        st.tuples(st.just("renew"), st.integers(1, 12)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("available now"), st.just(0)),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(actions=ACTIONS)
def test_whatever_happens_every_entry_is_read_once_or_was_deleted_unread(
    server: redis.Redis, actions: list[Any]
) -> None:
    """Each life begins with IDs of its own choice, and what is read of a life has no gap but what was removed."""
    server.flushall()
    query = Query(server, keys="*", failOnDataLoss="false", group="g")
    added: list[tuple[int, str]] = []
    removed: set[tuple[int, str]] = set()
    read: list[tuple[int, str]] = []
    life, clock = 1, 0
    for action, number in [*actions, ("crash", 0), ("batch", 10**6)]:
        held = {(life, id.decode()) for id, _ in server.xrange("s")}
        if action == "add":
            for _ in range(number):
                clock += 1
                added += [(life, id) for _, id in put(server, clock, life=life)]
        elif action == "batch":
            query.options["maxEntriesPerTrigger"] = str(number)
            query.reader._options = read_options(query.options, streaming=True)
            found = query.batch()
            lives = {id: fields[b"life"] for id, fields in server.xrange("s")}
            read += [(int(lives[id.encode()]), id) for _, id in found]
        elif action == "trim":
            server.xtrim("s", number, approximate=False)
            removed |= held - {(life, id.decode()) for id, _ in server.xrange("s")}
        elif action == "renew":
            server.delete("s")
            removed |= held
            life, clock = life + 1, number
            added += [(life, id) for _, id in put(server, clock, life=life)]
        else:
            query.begin()
            if action == "available now":
                query.reader.prepareForTriggerAvailableNow()
    assert len(read) == len(set(read))
    assert [entry for entry in added if entry in {*read}] == read
    assert set(added) - set(read) <= removed
