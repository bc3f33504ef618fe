"""VISIBILITY, RETRY, MAXDELIVERIES, DEADLETTER: what becomes of entries that were delivered and not acknowledged."""

import pytest

from headrace.engine.effect_log import CallbackSubscriber
from headrace.engine.rules.dead_letters import split_letter
from support.ruled_engine import START_MS, RuledEngine


@pytest.fixture
def engine() -> RuledEngine:
    engine = RuledEngine()
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    return engine


def add(engine: RuledEngine, *texts: str, key: str = "q") -> list[bytes]:
    return [engine.ask("XADD", key, "*", "n", text) for text in texts]


def letters(engine: RuledEngine, key: str = "q:dead") -> list[tuple[bytes, bytes, int, bytes]]:
    """Return (value, consumer, deliveries, reason) of each dead letter."""
    found = []
    for _, fields in engine.ask("XRANGE", key, "-", "+"):
        split = split_letter(fields)
        assert split is not None
        own, origin = split
        found.append((own[1], origin.consumer, origin.deliveries, origin.reason))
    return found


def test_what_a_consumer_holds_too_long_goes_to_the_next_plain_read_before_new_entries(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    first, second, third = add(engine, "1", "2", "3")
    assert engine.read("a", "COUNT", 2) == [first, second]
    engine.wait(29_000)
    assert engine.read("b", "COUNT", 1) == [third]
    engine.wait(1000)
    (fourth,) = add(engine, "4")
    engine.take_effects()
    assert engine.read("c", "COUNT", 3) == [first, second, fourth]
    assert engine.pending() == {first: (b"c", 2), second: (b"c", 2), third: (b"b", 1), fourth: (b"c", 1)}
    claims = [argv for _, argv in engine.take_effects() if argv[0] == b"XCLAIM"]
    assert [(argv[3], argv[5], argv[9]) for argv in claims] == [
        (b"c", first, b"2"),
        (b"c", second, b"2"),
        (b"c", fourth, b"1"),
    ]
    assert engine.policy("GET", "q", "GROUP", "g")[b"redelivered"] == 2


def test_a_consumer_gets_its_own_back_and_the_reply_is_the_usual_one(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", 1000)
    (first,) = add(engine, "1")
    engine.read("a")
    engine.wait(1000)
    assert engine.ask("XREADGROUP", "GROUP", "g", "a", "STREAMS", "q", ">") == [[b"q", [[first, [b"n", b"1"]]]]]


def test_history_claim_and_noack_are_as_before(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", 1000)
    (first,) = add(engine, "1")
    engine.read("a")
    engine.wait(5000)
    assert engine.ask("XREADGROUP", "GROUP", "g", "b", "STREAMS", "q", "0") == [[b"q", []]]
    assert engine.read("b", "CLAIM", 9000) == []
    assert engine.read("b", "NOACK") == []
    assert engine.pending() == {first: (b"a", 1)}


def test_a_reader_that_waits_is_woken_when_something_becomes_visible(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    (first,) = add(engine, "1")
    engine.read("a")
    engine.wait(10_000)
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "q", ">")
    engine.wait(19_000)
    assert waiting.waits
    engine.wait(1000)
    assert not waiting.waits
    assert first in waiting.reply()
    assert engine.pending() == {first: (b"b", 2)}


def test_a_reader_that_waits_sees_a_rule_that_is_set_meanwhile(engine: RuledEngine) -> None:
    (first,) = add(engine, "1")
    engine.read("a")
    engine.wait(60_000)
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "q", ">")
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    engine.settle()
    assert first in waiting.reply()


def test_a_rejected_entry_goes_to_the_next_read_at_once_without_retry(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    (first,) = add(engine, "1")
    engine.read("a")
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "q", ">")
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, first)
    assert first in waiting.reply()
    assert engine.pending() == {first: (b"b", 2)}


def test_failures_wait_longer_each_time_up_to_the_most(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "5s")
    (first,) = add(engine, "1")
    assert engine.read("a") == [first]
    for pause in (1000, 2000, 4000, 5000, 5000):
        assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, first) == 1
        engine.wait(pause - 20)
        assert engine.read("a") == []
        engine.wait(20)
        assert engine.read("a") == [first]
    assert engine.pending() == {first: (b"a", 6)}
    assert engine.ask("XACK", "q", "g", first) == 1
    assert engine.ask("EXISTS", "headrace:{q}:retries") == 0
    assert engine.policy("GET", "q", "GROUP", "g")[b"retried"] == 5


def test_the_wait_after_visibility_counts_from_when_it_was_over(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "RETRY", "5s", "5s")
    (first,) = add(engine, "1")
    engine.read("a")
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "q", ">")
    engine.wait(14_900)
    assert waiting.waits
    assert engine.pending() == {first: (b"", 1)}
    engine.wait(200)
    assert first in waiting.reply()
    assert engine.pending() == {first: (b"b", 2)}


def test_waiting_entries_come_in_the_order_in_which_they_are_due(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "60s")
    first, second, third = add(engine, "1", "2", "3")
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, first, "RETRYCOUNT", 4)
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, second)
    engine.ask("XNACK", "q", "g", "SILENT", "IDS", 1, third)
    assert engine.read("b") == [third]
    engine.wait(1000)
    assert engine.read("b") == [second]
    engine.wait(7000)
    assert engine.read("b") == [first]


def test_a_worker_that_dies_of_an_entry_does_not_get_it_for_ever_when_it_is_back(engine: RuledEngine) -> None:
    """It reads what it was given before, and so its visibility begins anew each time."""
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "1h", "MAXDELIVERIES", 3)
    first, second = add(engine, "1", "2")

    def read_own(behind: str | bytes) -> list[bytes]:
        reply = engine.ask("XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "STREAMS", "q", behind)
        return [entry[0] for entry in reply[0][1]]

    engine.read("a")
    assert [read_own("0"), read_own("0")] == [[first], [first]]
    assert read_own(first) == [second]  # what lies at the ID is not read, and stays
    assert engine.pending() == {first: (b"a", 3), second: (b"a", 2)}
    assert read_own("0") == [second]
    assert engine.pending() == {second: (b"a", 3)}
    ((_, letter),) = engine.entries("q:dead")
    assert (letter[b"headrace-id"], letter[b"headrace-deliveries"], letter[b"headrace-consumer"]) == (first, b"3", b"a")


@pytest.mark.parametrize("claims", ["XCLAIM", "XAUTOCLAIM", "CLAIM"])
def test_what_was_delivered_too_often_is_given_up_when_it_is_claimed(engine: RuledEngine, claims: str) -> None:
    """Workers that claim by themselves, as frameworks do, delivered a poison message for ever."""
    engine.policy("SET", "q", "GROUP", "g", "MAXDELIVERIES", 2)
    first, second = add(engine, "1", "2")

    def claim(*just_id: str) -> list[bytes]:
        if claims == "XCLAIM":
            reply = engine.ask("XCLAIM", "q", "g", "b", 0, first, second, *just_id)
        elif claims == "XAUTOCLAIM":
            reply = engine.ask("XAUTOCLAIM", "q", "g", "b", 0, 0, *just_id)[1]
        else:
            reply = engine.ask("XREADGROUP", "GROUP", "g", "b", "CLAIM", 0, "STREAMS", "q", ">")
            reply = reply[0][1] if reply else []
        return reply if just_id else [entry[0] for entry in reply]

    engine.read("a", "COUNT", 1)
    assert first in claim()
    engine.read("a")
    assert engine.pending() == {first: (b"b", 2), second: (b"b" if claims == "CLAIM" else b"a", 1)}
    if claims != "CLAIM":
        assert claim("JUSTID") == [first, second]  # moves them to another consumer, and delivers nothing
        assert engine.ask("XLEN", "q:dead") == 0
    assert claim() == [second]
    assert claim() == []
    assert engine.pending() == {}
    letters = [fields[b"headrace-id"] for _, fields in engine.entries("q:dead")]
    assert letters == [first, second]


def test_a_claim_that_says_how_often_an_entry_was_delivered_gets_it(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "MAXDELIVERIES", 1)
    (first,) = add(engine, "1")
    engine.read("a")
    reply = engine.ask("XCLAIM", "q", "g", "b", 0, first, "RETRYCOUNT", 0)
    assert [entry[0] for entry in reply] == [first]
    assert engine.pending() == {first: (b"b", 0)}


def test_what_waited_and_was_claimed_meanwhile_is_delivered_when_it_is_released(engine: RuledEngine) -> None:
    """The time for which it had waited was still there, and held it back for ever."""
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "10s")
    (first,) = add(engine, "1")
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, first)
    engine.ask("XCLAIM", "q", "g", "b", 0, first)
    engine.wait(2000)
    assert engine.read("c") == []
    engine.ask("XNACK", "q", "g", "SILENT", "IDS", 1, first)
    assert engine.read("c") == [first]
    assert engine.ask("EXISTS", "headrace:{q}:retries") == 0


def test_letters_that_cannot_be_moved_are_not_tried_without_end(engine: RuledEngine) -> None:
    """A hundred of them kept the server busy, 500 times a second."""
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "1s", "MAXDELIVERIES", 1)
    engine.ask("SET", "q:dead", "no stream")
    added = add(engine, *map(str, range(100)))
    engine.read("a")
    engine.wait(1500)  # settles, too
    assert len(engine.pending()) == 100
    assert engine.read("b") == added


def test_what_is_released_twice_is_delivered_once(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "1s", "MAXDELIVERIES", 5)
    first, second = add(engine, "1", "2")
    assert engine.read("a", "COUNT", 1) == [first]
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, first)
    engine.wait(2000)
    for _ in range(2):
        assert engine.ask("XNACK", "q", "g", "SILENT", "IDS", 1, first) == 1
    assert engine.read("a") == [first, second]
    assert engine.read("b") == []


def test_what_is_due_at_one_moment_comes_in_the_order_of_ids(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "1s")
    ids = [engine.ask("XADD", "q", "*", "n", number) for number in range(12)]
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 12, *reversed(ids))
    engine.wait(1000)
    assert engine.read("a") == ids


def test_what_does_not_fit_into_a_reply_is_delivered_next(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "1s", "1s")
    ids = add(engine, *"12345")
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 5, *ids)
    engine.wait(1000)
    assert engine.read("b", "COUNT", 2) == ids[:2]
    assert engine.read("b", "MAXSIZE", 1) == ids[2:3]
    assert engine.read("b") == ids[3:]


def test_what_was_delivered_often_enough_becomes_a_dead_letter_in_one_transaction(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 2)
    (first,) = add(engine, "1")
    engine.read("a")
    engine.wait(10_000)
    delivered_ms = engine.now_ms
    assert engine.read("b") == [first]
    engine.take_effects()
    engine.wait(10_000)
    assert engine.pending() == {}
    assert engine.entries("q:dead") == [
        (
            b"%d-0" % engine.now_ms,
            {
                b"n": b"1",
                b"headrace-stream": b"q",
                b"headrace-id": first,
                b"headrace-group": b"g",
                b"headrace-consumer": b"b",
                b"headrace-deliveries": b"2",
                b"headrace-first-delivery": b"%d" % START_MS,
                b"headrace-last-delivery": b"%d" % delivered_ms,
                b"headrace-reason": b"deliveries",
            },
        )
    ]
    assert [argv[0] for _, argv in engine.take_effects()] == [b"XADD", b"XACK", b"HDEL"]
    assert engine.entries("q") == [(first, {b"n": b"1"})]
    assert engine.policy("GET", "q", "GROUP", "g")[b"dead-letters"] == 1
    assert engine.ask("EXISTS", "headrace:{q}:retries") == 0


def test_the_effects_of_a_dead_letter_are_one_unit(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 1)
    add(engine, "1", "2")
    engine.read("a")
    units: list[bytes] = []
    engine.engine.effects.subscribe(CallbackSubscriber(units.append))
    engine.wait(10_000)
    (unit,) = [unit for unit in units if b"q:dead" in unit]
    assert unit.count(b"MULTI") == unit.count(b"EXEC") == 1
    assert unit.count(b"XADD") == unit.count(b"XACK") == 2


def test_a_read_moves_what_failed_too_often_and_delivers_the_rest(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 1, "DEADLETTER", "lost")
    add(engine, "1")
    engine.read("a")
    (second,) = add(engine, "2")
    engine.now_ms += 10_000
    engine.set_clock(engine.now_ms)
    assert engine.read("b") == [second]
    assert letters(engine, "lost") == [(b"1", b"a", 1, b"deliveries")]


def test_a_fatal_entry_dies_at_once_and_a_failed_one_when_it_was_delivered_often_enough(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "MAXDELIVERIES", 2, "RETRY", 1, 1)
    first, second = add(engine, "1", "2")
    engine.read("a")
    assert engine.ask("XNACK", "q", "g", "FATAL", "IDS", 1, first) == 1
    assert letters(engine) == [(b"1", b"a", 1, b"fatal")]
    assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 2, first, second) == 1
    engine.wait(10)
    assert engine.read("b") == [second]
    assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, second) == 1
    assert letters(engine) == [(b"1", b"a", 1, b"fatal"), (b"2", b"b", 2, b"deliveries")]
    assert engine.pending() == {}


def test_without_a_place_for_dead_letters_a_fatal_entry_is_as_in_redis(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "CONSUMERTTL", "1h")
    (first,) = add(engine, "1")
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FATAL", "IDS", 1, first)
    assert engine.pending() == {first: (b"", 2**63 - 1)}
    assert engine.ask("EXISTS", "q:dead") == 0


def test_an_entry_that_cannot_be_moved_is_delivered_on(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 1)
    (first,) = add(engine, "1")
    engine.read("a")
    engine.ask("SET", "q:dead", "text")
    engine.wait(10_000)
    assert engine.read("b") == [first]
    engine.ask("DEL", "q:dead")
    engine.wait(10_000)
    assert letters(engine) == [(b"1", b"b", 2, b"deliveries")]


def test_rules_that_are_set_later_find_what_is_pending(engine: RuledEngine) -> None:
    first, second, third = add(engine, "1", "2", "3")
    engine.read("a")
    engine.ask("XNACK", "q", "g", "FATAL", "IDS", 1, first)
    engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, second)
    engine.wait(60_000)
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 3, "RETRY", "1s", "1s")
    assert engine.read("b") == [second, third]
    assert letters(engine) == [(b"1", b"", 2**63 - 1, b"fatal")]


def test_records_of_deleted_entries_are_forgotten(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s")
    first, second = add(engine, "1", "2")
    engine.read("a")
    engine.ask("XDEL", "q", first)
    engine.wait(10_000)
    engine.take_effects()
    assert engine.read("b") == [second]
    assert engine.take_effects()[0] == (0, [b"XACK", b"q", b"g", first])


def test_a_dead_letter_wakes_who_waits_for_it(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 1)
    waiting = engine.waiting("XREAD", "BLOCK", 0, "STREAMS", "q:dead", "$")
    add(engine, "1")
    engine.read("a")
    engine.wait(10_000)
    assert b"headrace-reason" in waiting.reply()


def test_claims_of_clients_count_as_deliveries(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 2)
    (first,) = add(engine, "1")
    engine.read("a")
    engine.ask("XAUTOCLAIM", "q", "g", "b", 0, "0")
    assert engine.pending() == {first: (b"b", 2)}
    engine.wait(10_000)
    assert letters(engine) == [(b"1", b"b", 2, b"deliveries")]


def test_a_consumer_that_was_not_seen_is_removed_and_what_it_held_goes_back(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "CONSUMERTTL", "1h", "VISIBILITY", "1d")
    first, second = add(engine, "1", "2")
    engine.read("a", "COUNT", 1)
    engine.wait(1_800_000)
    engine.read("b", "COUNT", 1)
    engine.take_effects()
    engine.wait(1_800_000)
    assert engine.pending() == {first: (b"", 1), second: (b"b", 1)}
    assert [argv[:2] for _, argv in engine.take_effects()] == [[b"XNACK", b"q"], [b"XGROUP", b"DELCONSUMER"]]
    assert [row[1] for row in engine.ask("XINFO", "CONSUMERS", "q", "g")] == [b"b"]
    assert engine.policy("GET", "q", "GROUP", "g")[b"consumers-removed"] == 1
    assert engine.read("b") == [first]


def test_a_consumer_that_waits_is_there_however_long(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "CONSUMERTTL", "1h")
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "q", ">")
    for _ in range(5):
        engine.wait(1_800_000)
    assert [row[1] for row in engine.ask("XINFO", "CONSUMERS", "q", "g")] == [b"a"]
    engine.engine.disconnect(waiting.client)
    engine.wait(3_600_000)
    assert engine.ask("XINFO", "CONSUMERS", "q", "g") == []


@pytest.mark.parametrize(("start", "given"), [("0", 2), ("$", 0)])
def test_a_missing_group_is_made_by_whoever_reads_it(engine: RuledEngine, start: str, given: int) -> None:
    engine.policy("SET", "MATCH", "jobs:*", "GROUP", "w", "CREATE", "FROM", start)
    add(engine, "1", "2", key="jobs:1")
    engine.take_effects()
    assert len(engine.read("a", key="jobs:1", group="w")) == given
    assert engine.take_effects()[0][1][:5] == [
        b"XGROUP",
        b"CREATE",
        b"jobs:1",
        b"w",
        b"0" if start == "0" else engine.entries("jobs:1")[-1][0],
    ]
    assert engine.read("a", key="jobs:2", group="w") == []
    assert engine.ask("XLEN", "jobs:2") == 0
    assert "NOGROUP" in str(engine.ask("XREADGROUP", "GROUP", "other", "a", "STREAMS", "jobs:1", ">"))
    assert engine.policy("GET", "MATCH", "jobs:*", "GROUP", "w")[b"groups-created"] == 2


def test_a_reader_that_waits_outlives_its_key(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "CREATE", "FROM", "0")
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "q", ">")
    engine.ask("DEL", "q")
    assert waiting.waits
    (first,) = add(engine, "1")
    assert first in waiting.reply()


def test_other_groups_and_streams_are_as_before(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", 1)
    engine.ask("XGROUP", "CREATE", "q", "h", "0")
    add(engine, "1")
    engine.read("a", group="h")
    engine.wait(1000)
    assert engine.read("b", group="h") == []


def test_a_rule_that_was_just_removed_drops_nothing(engine: RuledEngine) -> None:
    """Timers of the rule before may be due at the same moment, before the new one was read."""
    engine.policy("SET", "q", "DROP", "ACKED")
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "1s", "MAXDELIVERIES", 1)
    (first,) = add(engine, "1")
    assert engine.read("a") == [first]
    engine.policy("DEL", "q")
    engine.wait(2000)
    assert letters(engine) == [(b"1", b"a", 1, b"deliveries")]
    assert [entry for entry, _ in engine.entries("q")] == [first]
