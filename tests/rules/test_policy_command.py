"""HEADRACE POLICY: rules are said, shown, taken back, refused, and kept as ordinary data."""

import pytest

from support.ruled_engine import START_MS, RuledEngine


@pytest.fixture
def engine() -> RuledEngine:
    return RuledEngine()


def test_a_rule_of_a_stream_is_a_hash_beside_it_and_shown_with_what_it_has_done(engine: RuledEngine) -> None:
    assert (
        engine.policy("SET", "q", "MAXLEN", 2, "MAXAGE", "7d", "MAXBYTES", "512mb", "ACKED", "DROP", "ACKED") == b"OK"
    )
    fields = engine.ask("HGETALL", "headrace:{q}:policy")
    assert dict(zip(fields[::2], fields[1::2], strict=True)) == {
        b"maxlen": b"2",
        b"maxage": b"604800000",
        b"maxbytes": b"536870912",
        b"refs": b"acked",
        b"drop": b"acked",
        b"since": b"%d" % START_MS,
    }
    for _ in range(3):
        engine.ask("XADD", "q", "*", "a", "1")
    assert engine.policy("GET", "q") == {
        b"maxlen": 2,
        b"maxage": 604_800_000,
        b"maxbytes": 536_870_912,
        b"refs": b"acked",
        b"drop": b"acked",
        b"since": START_MS,
        b"active": 1,
        b"counted-since": START_MS,
        b"trimmed": 1,
        b"dropped": 0,
    }


def test_a_rule_of_a_group_is_fields_of_the_same_hash(engine: RuledEngine) -> None:
    engine.policy(
        *("SET", "q", "GROUP", "g", "VISIBILITY", "30s", "RETRY", "1s", "1m", "MAXDELIVERIES", 5),
        *("DEADLETTER", "lost", "CONSUMERTTL", "1d", "CREATE", "FROM", "$"),
    )
    shown = engine.policy("GET", "q", "GROUP", "g")
    assert shown[b"visibility"] == 30_000
    assert (shown[b"retry-min"], shown[b"retry-max"]) == (1000, 60_000)
    assert (shown[b"maxdeliveries"], shown[b"deadletter"]) == (5, b"lost")
    assert (shown[b"consumerttl"], shown[b"create"]) == (86_400_000, b"$")
    assert engine.ask("HGET", "headrace:{q}:policy", "retry:g") == b"1000 60000"
    assert engine.policy("GET", "q") is None
    assert engine.policy("GET", "q", "GROUP", "other") is None


def test_setting_replaces_and_says_so_in_effects(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXLEN", 5, "MAXAGE", "1h")
    engine.take_effects()
    engine.wait(1000)
    engine.policy("SET", "q", "MAXLEN", 6)
    since = b"%d" % (engine.now_ms)
    assert engine.take_effects() == [
        (0, [b"HDEL", b"headrace:{q}:policy", b"maxage"]),
        (0, [b"HSET", b"headrace:{q}:policy", b"maxlen", b"6", b"since", since]),
    ]
    engine.wait(1000)
    engine.policy("SET", "q", "MAXLEN", 6)
    assert engine.take_effects() == []
    assert engine.policy("GET", "q")[b"since"] == int(since)
    assert engine.policy("DEL", "q") == 1
    assert [argv[:2] for _, argv in engine.take_effects()] == [[b"HDEL", b"headrace:{q}:policy"]]
    assert engine.policy("DEL", "q") == 0
    assert engine.ask("EXISTS", "headrace:{q}:policy") == 0


def test_a_keys_own_rule_wins_over_patterns_and_the_longest_pattern_over_others(engine: RuledEngine) -> None:
    engine.policy("SET", "MATCH", "*", "MAXLEN", 1)
    engine.policy("SET", "MATCH", "orders:*", "MAXLEN", 2)
    engine.policy("SET", "orders:eu", "MAXLEN", 3)
    engine.policy("SET", "MATCH", "*", "GROUP", "g", "VISIBILITY", 1000)
    for key in ("bills", "orders:us", "orders:eu"):
        for _ in range(5):
            engine.ask("XADD", key, "*", "a", "1")
    assert [engine.ask("XLEN", key) for key in ("bills", "orders:us", "orders:eu")] == [1, 2, 3]
    assert engine.policy("GET", "orders:us")[b"match"] == b"orders:*"
    assert b"match" not in engine.policy("GET", "orders:eu")
    assert engine.policy("GET", "orders:eu", "GROUP", "g")[b"match"] == b"*"
    assert engine.policy("GET", "MATCH", "orders:*")[b"trimmed"] == 3
    engine.policy("DEL", "orders:eu")
    engine.ask("XADD", "orders:eu", "*", "a", "1")
    assert engine.ask("XLEN", "orders:eu") == 2


def test_all_rules_are_listed(engine: RuledEngine) -> None:
    engine.policy("SET", "a", "MAXLEN", 1)
    engine.policy("SET", "a", "GROUP", "g", "VISIBILITY", 5)
    engine.policy("SET", "MATCH", "b*", "MAXLEN", 2)
    since = [b"since", START_MS]
    assert engine.policy("LIST") == [
        [b"key", b"a", b"maxlen", 1, *since],
        [b"key", b"a", b"group", b"g", b"visibility", 5, *since],
        [b"match", b"b*", b"maxlen", 2, *since],
    ]
    assert engine.policy("LIST", "b*") == [[b"match", b"b*", b"maxlen", 2, *since]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["q", "MAXAGE", "7x"], "'7x' is no duration"),
        (["q", "MAXBYTES", "7tb"], "'7tb' is no size"),
        (["q", "MAXLEN", "0"], "MAXLEN takes a positive integer"),
        (["q", "MAXLEN", "-5"], "MAXLEN takes a positive integer"),
        (["q", "MAXLEN", "9" * 400], "MAXLEN takes a positive integer"),
        (["q", "MAXLEN", "5", "MAXLEN", "6"], "MAXLEN is said twice"),
        (["q", "ACKED"], "MAXLEN, MAXAGE or MAXBYTES is missing"),
        (["q", "MAXLEN", "5", "ACKED", "DELREF"], "only one of"),
        (["q", "DROP", "ALL"], "DROP takes ACKED"),
        (["q", "VISIBILITY", "5"], "'VISIBILITY' is no rule of a stream"),
        (["q"], "a rule must say something"),
        (["q", "GROUP", "g"], "a rule must say something"),
        (["q", "GROUP"], "syntax error"),
        (["MATCH"], "syntax error"),
        (["q", "MAXLEN"], "syntax error"),
        (["q", "GROUP", "g", "MAXLEN", "5"], "'MAXLEN' is no rule of a group"),
        (["q", "GROUP", "g", "RETRY", "5s", "1s"], "the shortest wait first"),
        (["q", "GROUP", "g", "DEADLETTER", "q"], "its own dead-letter stream"),
        (["MATCH", "q*", "GROUP", "g", "DEADLETTER", "quiet"], "matches 'q*' itself"),
        (["q", "GROUP", "g", "DEADLETTER", ""], "not empty"),
        (["q", "GROUP", "g", "DEADLETTER", "text"], "holds another kind of value"),
        (["text", "MAXLEN", "5"], "holds another kind of value"),
        (["q", "GROUP", "g", "CREATE", "FROM", "x"], "CREATE FROM takes 0, $ or an ID"),
        (["q", "GROUP", "g", "CREATE", "0"], "CREATE takes FROM"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_in_one_sentence(
    engine: RuledEngine, words: list[str], said: str
) -> None:
    engine.ask("SET", "text", "1")
    engine.take_effects()
    refusal = str(engine.policy("SET", *words))
    assert said in refusal
    assert "\n" not in refusal
    assert engine.take_effects() == []
    assert engine.policy("LIST") == []


def test_other_words_are_refused(engine: RuledEngine) -> None:
    assert "has SET, GET, DEL and LIST" in str(engine.policy("PUT", "q"))
    for words in (("GET",), ("DEL", "q", "x"), ("GET", "q", "GROUP"), ("LIST", "a", "b")):
        assert "syntax error" in str(engine.policy(*words))


def test_rules_follow_their_hash_whatever_changes_it(engine: RuledEngine) -> None:
    def kept(key: str = "q") -> int:
        for _ in range(9):
            engine.ask("XADD", key, "*", "a", "1")
        return int(engine.ask("XLEN", key))

    side = "headrace:{q}:policy"
    engine.ask("HSET", side, "maxlen", "4")
    assert kept() == 4
    engine.ask("EVAL", "return redis.call('HSET', KEYS[1], 'maxlen', '3')", 1, side)
    assert kept() == 3
    engine.ask("HSET", side, "maxlen", "nonsense")
    assert kept() == 12
    engine.ask("HSET", side, "maxlen", "2")
    engine.ask("RENAME", side, "headrace:{r}:policy")
    assert kept() == 21
    assert kept("r") == 2
    engine.ask("SWAPDB", 0, 1)
    assert kept("r") == 9
    engine.ask("SWAPDB", 0, 1)
    assert kept("r") == 2
    engine.ask("COPY", "headrace:{r}:policy", side)
    assert kept() == 2
    engine.ask("PEXPIRE", side, 100)
    engine.wait(200)
    assert kept() == 11
    engine.ask("SET", side, "text")
    assert kept() == 20
    engine.ask("FLUSHALL")
    assert kept("r") == 9
    assert engine.policy("LIST") == []


def test_a_rule_needs_permission_for_the_key_and_for_what_it_writes(engine: RuledEngine) -> None:
    engine.ask("ACL", "SETUSER", "u", "on", "nopass", "~orders:*", "+@all")
    client = engine.connect()
    client.run("AUTH", "u", "x")

    def answer(*words: str | int) -> bytes:
        return client.run("HEADRACE", "POLICY", *words)

    assert answer("SET", "orders:1", "MAXLEN", 5) == b"+OK\r\n"
    assert answer("SET", "orders:1", "GROUP", "g", "MAXDELIVERIES", 5) == b"+OK\r\n"
    assert answer("SET", "orders:1", "GROUP", "g", "DEADLETTER", "orders:lost") == b"+OK\r\n"
    assert answer("SET", "MATCH", "orders:eu*", "MAXLEN", 5) == b"+OK\r\n"
    assert answer("SET", "MATCH", "orders:*", "GROUP", "g", "MAXDELIVERIES", 5) == b"+OK\r\n"
    for words in (
        ("SET", "bills", "MAXLEN", 5),
        ("GET", "bills"),
        ("DEL", "bills"),
        ("SET", "orders:1", "GROUP", "g", "DEADLETTER", "lost"),
        ("SET", "MATCH", "orders:*", "GROUP", "g", "DEADLETTER", "lost"),
        ("SET", "MATCH", "*", "MAXLEN", 5),
        ("SET", "MATCH", "[o]rders:*", "MAXLEN", 5),
        ("DEL", "MATCH", "*"),
    ):
        assert answer(*words).startswith(b"-NOPERM"), words


def test_rules_are_shown_where_nothing_may_be_written(engine: RuledEngine) -> None:
    engine.policy("SET", "q", "MAXLEN", 5)
    engine.engine.begin_following()
    engine.engine.refusals.writes = b"READONLY You can't write against a read only replica."
    assert engine.policy("GET", "q")[b"active"] == 0
    assert len(engine.policy("LIST")) == 1
    assert "READONLY" in str(engine.policy("SET", "q", "MAXLEN", 6))
