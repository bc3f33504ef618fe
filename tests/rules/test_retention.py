"""MAXLEN, MAXAGE, MAXBYTES and DROP ACKED: what a stream keeps, at every append and by time."""

import pytest

from headrace.engine.applier import Applier
from support.packed_rows import packed
from support.ruled_engine import START_MS, RuledEngine


@pytest.fixture
def engine() -> RuledEngine:
    return RuledEngine()


def add(engine: RuledEngine, count: int, key: str = "q", text: str = "x") -> list[bytes]:
    return [engine.ask("XADD", key, "*", "n", text) for _ in range(count)]


def ids(engine: RuledEngine, key: str = "q") -> list[bytes]:
    return [entry[0] for entry in engine.entries(key)]


def test_a_length_is_kept_exactly_at_every_append_and_where_nobody_appends(engine: RuledEngine) -> None:
    before = add(engine, 9)
    engine.policy("SET", "q", "MAXLEN", 5)
    engine.settle()
    assert ids(engine) == before[4:]
    engine.take_effects()
    (last,) = add(engine, 1)
    assert ids(engine) == [*before[5:], last]
    assert engine.take_effects() == [(0, [b"XADD", b"q", b"MAXLEN", b"=", b"5", last, b"n", b"x"])]


def test_old_entries_go_without_anybodys_help(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXAGE", "10s")
    add(engine, 3)
    engine.wait(6000)
    later = add(engine, 2)
    engine.wait(5100)
    assert ids(engine) == later
    engine.take_effects()
    engine.wait(10_000)
    assert ids(engine) == []
    assert engine.take_effects() == [(0, [b"XTRIM", b"q", b"MAXLEN", b"=", b"0"])]
    assert engine.policy("GET", "q")[b"trimmed"] == 5


def test_old_entries_under_a_pattern_are_found_when_it_is_set(engine: RuledEngine) -> None:
    for number in range(1200):
        engine.ask("XADD", f"log:{number}", "*", "a", "1")
    engine.ask("SET", "log:text", "1")
    engine.wait(60_000)
    engine.policy("SET", "MATCH", "log:*", "MAXAGE", "10s")
    engine.settle()
    assert sum(engine.ask("XLEN", f"log:{number}") for number in range(1200)) == 0


def test_bytes_are_kept_in_whole_nodes_and_the_newest_stays(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXBYTES", "20kb")
    added = add(engine, 1000, text="y" * 100)
    kept = ids(engine)
    assert kept == added[-len(kept) :]
    assert 100 < len(kept) < 250
    engine.policy("SET", "q", "MAXBYTES", 1)
    (last,) = add(engine, 1, text="z")
    assert last in ids(engine)
    assert len(ids(engine)) <= 100


def test_acked_lets_go_of_what_lies_behind_an_entry_that_became_a_dead_letter(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXLEN", 2, "ACKED")
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "10s", "MAXDELIVERIES", 1)
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    added = add(engine, 6)
    engine.read("a")
    engine.ask("XACK", "q", "g", *added[1:])
    engine.wait(3000)
    assert ids(engine) == added
    engine.wait(10_000)
    engine.wait(1100)
    assert ids(engine) == added[4:]
    assert engine.ask("XLEN", "q:dead") == 1


def test_acked_keeps_what_a_group_has_not_finished(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXLEN", 2, "ACKED")
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    added = add(engine, 6)
    assert ids(engine) == added
    assert engine.read("a", "COUNT", 4) == added[:4]
    engine.ask("XACK", "q", "g", added[0], added[1], added[3])
    engine.wait(1100)
    assert ids(engine) == added[2:]
    engine.ask("XACK", "q", "g", added[2])
    engine.wait(1100)
    assert ids(engine) == added[4:]
    assert engine.ask("XPENDING", "q", "g")[0] == 0


def test_delref_removes_pending_records_and_keepref_leaves_them(engine: RuledEngine) -> None:
    for key, word in (("d", "DELREF"), ("k", "KEEPREF")):
        engine.policy("SET", key, "MAXLEN", 1, word)
        engine.ask("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
        add(engine, 1, key)
        engine.read("a", key=key)
        add(engine, 1, key)
    assert engine.ask("XPENDING", "d", "g")[0] == 0
    assert engine.ask("XPENDING", "k", "g")[0] == 1


def test_delref_is_told_to_older_servers_in_their_words(engine: RuledEngine) -> None:
    engine.ask("CONFIG", "SET", "rdb-compatibility-version", "7.0")
    engine.policy("SET", "q", "MAXLEN", 1, "DELREF")
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    (first,) = add(engine, 1)
    engine.read("a")
    engine.take_effects()
    (second,) = add(engine, 1)
    assert [argv for _, argv in engine.take_effects()][1:] == [
        [b"XACK", b"q", b"g", first],
        [b"XTRIM", b"q", b"MINID", b"=", second],
    ]


def test_an_entry_that_every_group_has_acknowledged_leaves_at_once(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "DROP", "ACKED")
    for group in ("g", "h"):
        engine.ask("XGROUP", "CREATE", "q", group, "0", "MKSTREAM")
    first, second, third = add(engine, 3)
    engine.read("a")
    engine.read("a", "COUNT", 2, group="h")
    engine.ask("XACK", "q", "g", first, second, third)
    assert ids(engine) == [first, second, third]
    engine.take_effects()
    engine.ask("XACK", "q", "h", second)
    assert engine.take_effects() == [(0, [b"XACK", b"q", b"h", second]), (0, [b"XDEL", b"q", second])]
    assert ids(engine) == [first, third]
    assert engine.policy("GET", "q")[b"dropped"] == 1


def test_a_trim_by_a_rule_is_no_second_trim_where_the_command_has_one(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXLEN", 5)
    add(engine, 5)
    engine.take_effects()
    engine.ask("XADD", "q", "MAXLEN", "=", 3, "*", "a", "1")
    assert len(engine.take_effects()) == 1
    assert engine.ask("XLEN", "q") == 3


def test_dead_letters_have_a_length_of_their_own(engine: RuledEngine) -> None:
    engine.policy("SET", "q:dead", "MAXLEN", 2)
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", 10, "MAXDELIVERIES", 1)
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    add(engine, 5)
    engine.read("a")
    engine.wait(10)
    assert engine.ask("XLEN", "q:dead") == 2
    assert engine.pending() == {}


def test_packed_entries_are_trimmed_as_single_ones(engine: RuledEngine) -> None:
    rows = [[(b"n", b"1")]] * 20
    engine.policy("SET", "q", "MAXLEN", 7)
    engine.ask("HEADRACE", "LINK", "q", "*", packed(rows))
    assert engine.ask("XLEN", "q") == 7


@pytest.mark.parametrize("version", ["auto", "7.0"])
@pytest.mark.parametrize("policy", ["KEEPREF", "DELREF", "ACKED"])
def test_a_policy_that_an_xadd_names_without_a_trim_is_not_that_of_the_rules_trim(policy: str, version: str) -> None:
    """The effect trimmed by the policy of the command, or, for Redis 7.0, could not be repeated at all."""
    engine, other = RuledEngine(), RuledEngine()
    engine.ask("CONFIG", "SET", "rdb-compatibility-version", version)
    engine.policy("SET", "q", "MAXLEN", 2)
    engine.ask("XGROUP", "CREATE", "q", "g", 0, "MKSTREAM")
    for _ in range(4):
        engine.ask("XADD", "q", policy, "*", "n", "1")
        engine.read("a")
    applier = Applier(other.engine, START_MS)
    for _, argv in engine.take_effects():
        assert applier.run(argv) is None
    assert ids(other) == ids(engine)
    assert other.pending() == engine.pending()
    assert len(other.pending()) == 4
