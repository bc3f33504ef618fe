"""XREAD and XREADGROUP beyond Redis 7.0: MAXCOUNT, MAXSIZE, CLAIM (docs/behaviour.md 4.4, 4.5, 5.2, 5.3)."""

import pytest

from headrace.engine.blocking.waking import run_due
from support.raw_client import parse
from support.stream_session import NOW, StreamSession, entry, ids_of


@pytest.fixture
def session() -> StreamSession:
    """Two streams of four entries, and a group that has been given nothing of either."""
    session = StreamSession()
    for key in ("s", "t"):
        session.fill(key, "1-0", "2-0", "3-0", "4-0")
        session.ask(f"XGROUP CREATE {key} g 0")
    return session


# --- MAXCOUNT --------------------------------------------------------------------------------------------------------


def test_maxcount_is_over_all_streams(session: StreamSession) -> None:
    assert ids_of(session.ask("XREAD MAXCOUNT 6 STREAMS s t 0 0")) == {
        "s": ["1-0", "2-0", "3-0", "4-0"],
        "t": ["1-0", "2-0"],
    }


def test_count_is_of_each_stream_within_maxcount(session: StreamSession) -> None:
    reply = session.ask("XREAD COUNT 2 MAXCOUNT 3 STREAMS s t 0 0")
    assert ids_of(reply) == {"s": ["1-0", "2-0"], "t": ["1-0"]}


def test_streams_behind_the_last_one_allowed_are_left_out(session: StreamSession) -> None:
    assert ids_of(session.ask("XREAD MAXCOUNT 4 STREAMS s t 0 0")) == {"s": ["1-0", "2-0", "3-0", "4-0"]}


def test_a_stream_behind_maxcount_is_not_even_given_the_consumer(session: StreamSession) -> None:
    reply = session.ask("XREADGROUP GROUP g alice MAXCOUNT 4 STREAMS s t > >")
    assert ids_of(reply) == {"s": ["1-0", "2-0", "3-0", "4-0"]}
    assert session.info("XINFO GROUPS s")[0]["consumers"] == 1
    assert session.info("XINFO GROUPS t")[0]["consumers"] == 0


def test_maxcount_covers_claimed_new_and_old_entries_together(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.wait_ms(100)
    reply = session.ask("XREADGROUP GROUP g alice MAXCOUNT 3 CLAIM 50 STREAMS s t > >")
    assert ids_of(reply) == {"s": ["1-0", "2-0", "3-0"]}
    assert ids_of(session.ask("XREADGROUP GROUP g alice MAXCOUNT 2 STREAMS s 0")) == {"s": ["1-0", "2-0"]}


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ("MAXCOUNT 0", "-ERR MAXCOUNT must be a positive integer"),
        ("MAXCOUNT -1", "-ERR MAXCOUNT must be a positive integer"),
        ("MAXCOUNT x", "-ERR value is not an integer or out of range"),
        ("MAXSIZE 0", "-ERR MAXSIZE must be a positive integer"),
        ("MAXSIZE -5", "-ERR MAXSIZE must be a positive integer"),
        ("MAXSIZE 1.5", "-ERR value is not an integer or out of range"),
        ("COUNT 3 MAXCOUNT 2", "-ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("MAXCOUNT 2 COUNT 3", "-ERR MAXCOUNT must be greater than or equal to COUNT"),
    ],
)
def test_limits_of_the_reply_are_checked(session: StreamSession, options: str, refusal: str) -> None:
    assert session.ask(f"XREAD {options} STREAMS s 0") == refusal
    assert session.ask(f"XREADGROUP GROUP g alice {options} STREAMS s >") == refusal
    assert session.ask("XPENDING s g") == [0, None, None, None]


def test_no_count_and_a_negative_count_are_not_compared_with_maxcount(session: StreamSession) -> None:
    for count in ("", "COUNT 0 ", "COUNT -1 "):
        assert ids_of(session.ask(f"XREAD {count}MAXCOUNT 1 STREAMS s 0")) == {"s": ["1-0"]}


def test_the_comparison_with_count_comes_after_the_presence_of_streams_and_group(session: StreamSession) -> None:
    assert session.ask("XREAD COUNT 3 MAXCOUNT 2") == "-ERR syntax error"
    missing = session.ask("XREADGROUP COUNT 3 MAXCOUNT 2 STREAMS s >")
    assert missing == "-ERR Missing GROUP option for XREADGROUP"


# --- MAXSIZE ---------------------------------------------------------------------------------------------------------


def test_maxsize_always_gives_one_entry(session: StreamSession) -> None:
    assert ids_of(session.ask("XREAD MAXSIZE 1 STREAMS s t 0 0")) == {"s": ["1-0"]}
    assert ids_of(session.ask("XREADGROUP GROUP g alice MAXSIZE 1 STREAMS s t > >")) == {"s": ["1-0"]}
    assert session.info("XINFO GROUPS t")[0]["consumers"] == 0


def test_a_reply_passes_maxsize_by_its_last_entry_only(session: StreamSession) -> None:
    sizes = [len(session.run("XREAD", "COUNT", count, "STREAMS", "s", 0)) for count in range(1, 5)]
    step = sizes[1] - sizes[0]
    open_headers = len(b"*1\r\n*1\r\n")  # of the streams and of the entries: not counted before they are known
    for limit in range(1, sizes[-1] + 2 * step):
        given = len(session.run("XREAD", "MAXSIZE", limit, "STREAMS", "s", 0))
        assert given == sizes[0] or given - step - open_headers < limit
        assert given in sizes
        if given != sizes[-1]:
            assert given - open_headers >= limit, "there was room for another one"


def test_maxsize_ends_between_streams_too(session: StreamSession) -> None:
    whole = len(session.run("XREAD", "STREAMS", "s", 0))
    assert list(ids_of(session.ask(f"XREAD MAXSIZE {whole - 30} STREAMS s t 0 0"))) == ["s"]
    assert list(ids_of(session.ask(f"XREAD MAXSIZE {whole * 2} STREAMS s t 0 0"))) == ["s", "t"]


def test_maxsize_is_of_the_command_and_not_of_the_transaction(session: StreamSession) -> None:
    session.ask("MULTI")
    for _ in range(3):
        session.ask("XREAD MAXSIZE 60 STREAMS s 0")
    first, *others = session.ask("EXEC")
    assert len(ids_of(first)["s"]) > 1
    assert others == [first, first]


def test_maxsize_leaves_the_rest_undelivered(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g alice MAXSIZE 1 STREAMS s >")
    assert session.ask("XPENDING s g") == [1, "1-0", "1-0", [["alice", "1"]]]
    assert ids_of(session.ask("XREADGROUP GROUP g alice STREAMS s >")) == {"s": ["2-0", "3-0", "4-0"]}


# --- CLAIM -----------------------------------------------------------------------------------------------------------


def test_claimed_entries_come_first_with_what_they_were_before(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.wait_ms(70)
    reply = session.ask("XREADGROUP GROUP g alice CLAIM 50 STREAMS s >")
    assert reply == [
        ["s", [[*entry("1-0"), 70, 1], [*entry("2-0"), 70, 1], [*entry("3-0"), 0, 0], [*entry("4-0"), 0, 0]]]
    ]
    assert session.pending("s", "g") == [
        ["1-0", "alice", 0, 2],
        ["2-0", "alice", 0, 2],
        *([id, "alice", 0, 1] for id in ("3-0", "4-0")),
    ]


def test_claim_goes_by_delivery_time_and_not_by_id(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    session.wait_ms(100)
    session.ask("XCLAIM s g bob 0 1-0 3-0")
    session.wait_ms(100)
    assert ids_of(session.ask("XREADGROUP GROUP g alice CLAIM 150 STREAMS s >")) == {"s": ["2-0", "4-0"]}
    assert ids_of(session.ask("XREADGROUP GROUP g alice CLAIM 50 STREAMS s >")) == {"s": ["1-0", "3-0"]}


def test_claim_takes_count_into_account_for_claimed_and_new_together(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.wait_ms(100)
    assert ids_of(session.ask("XREADGROUP GROUP g alice COUNT 3 CLAIM 50 STREAMS s >")) == {"s": ["1-0", "2-0", "3-0"]}


def test_claim_gives_nothing_twice_even_without_any_idle_time(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    assert ids_of(session.ask("XREADGROUP GROUP g alice CLAIM 0 STREAMS s >")) == {"s": ["1-0", "2-0", "3-0", "4-0"]}


def test_claim_passes_deleted_entries_and_leaves_their_records(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    session.ask("XDEL s 1-0 3-0")
    session.wait_ms(100)
    assert ids_of(session.ask("XREADGROUP GROUP g alice CLAIM 50 STREAMS s >")) == {"s": ["2-0", "4-0"]}
    assert [record[:2] for record in session.pending("s", "g")][::2] == [["1-0", "bob"], ["3-0", "bob"]]


def test_claim_of_deleted_entries_only_gives_nothing(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 1 STREAMS s >")
    session.ask("XGROUP SETID s g 4-0")
    session.ask("XDEL s 1-0")
    session.wait_ms(100)
    assert session.ask("XREADGROUP GROUP g alice CLAIM 50 STREAMS s >") is None


def test_history_ignores_claim_and_ends_it_for_the_streams_that_follow(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 1 STREAMS s t > >")
    session.wait_ms(100)
    reply = session.ask("XREADGROUP GROUP g bob CLAIM 50 STREAMS s t 0 >")
    assert reply == [["s", [entry("1-0")]], ["t", [entry("2-0"), entry("3-0"), entry("4-0")]]]
    reply = session.ask("XREADGROUP GROUP g alice CLAIM 50 STREAMS t s > 0")
    assert reply == [["t", [[*entry("1-0"), 100, 1]]], ["s", []]]


def test_noack_does_not_take_claimed_entries_off_the_pending_list(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 1 STREAMS s >")
    session.wait_ms(100)
    reply = session.ask("XREADGROUP GROUP g alice CLAIM 50 NOACK STREAMS s >")
    assert ids_of(reply) == {"s": ["1-0", "2-0", "3-0", "4-0"]}
    assert session.pending("s", "g") == [["1-0", "alice", 0, 2]]


def test_a_released_entry_is_claimed_first_and_has_been_idle_since_time_began(
    session: StreamSession,
) -> None:
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    session.ask("XNACK s g FAIL IDS 2 4-0 3-0")
    assert session.ask("XREADGROUP GROUP g alice CLAIM 1000 STREAMS s >") == [
        ["s", [[*entry("4-0"), NOW, 1], [*entry("3-0"), NOW, 1]]]
    ]


def test_new_entries_have_four_parts_under_claim_even_when_nothing_is_claimed(session: StreamSession) -> None:
    reply = session.ask("XREADGROUP GROUP g alice COUNT 1 CLAIM 1000 STREAMS s >")
    assert reply == [["s", [[*entry("1-0"), 0, 0]]]]


@pytest.mark.parametrize(
    ("idle", "refusal"),
    [
        ("-1", "-ERR min-idle-time must be a positive integer"),
        ("x", "-ERR min-idle-time is not an integer or out of range"),
    ],
)
def test_the_idle_time_of_claim_is_checked(session: StreamSession, idle: str, refusal: str) -> None:
    assert session.ask(f"XREADGROUP GROUP g alice CLAIM {idle} STREAMS s >") == refusal


@pytest.mark.parametrize("option", ["GROUP g c", "NOACK", "CLAIM 5"])
def test_xread_has_no_options_of_groups(session: StreamSession, option: str) -> None:
    word = option.split(maxsplit=1)[0]
    refusal = f"-ERR The {word} option is only supported by XREADGROUP. You called XREAD instead."
    assert session.ask(f"XREAD {option} STREAMS s 0") == refusal


# --- times of consumers, shapes --------------------------------------------------------------------------------------


def test_a_consumer_is_seen_when_it_asks_and_active_when_it_gets(session: StreamSession) -> None:
    def times() -> tuple[int, int]:
        [consumer] = session.info("XINFO CONSUMERS s g")
        return consumer["idle"], consumer["inactive"]

    session.ask("XREADGROUP GROUP g alice COUNT 1 NOACK STREAMS s >")
    assert times() == (0, -1)
    session.wait_ms(10)
    session.ask("XREADGROUP GROUP g alice COUNT 1 STREAMS s >")
    assert times() == (0, 0)
    session.wait_ms(10)
    session.ask("XREADGROUP GROUP g alice STREAMS s 0")
    assert times() == (0, 10)
    session.wait_ms(10)
    session.ask("XACK s g 2-0")
    assert times() == (10, 20)
    session.ask("XAUTOCLAIM s g alice 0 0")
    assert times() == (0, 20)


def test_a_map_is_made_of_the_streams_in_resp3_and_nothing_else(session: StreamSession) -> None:
    session.run("HELLO", 3)
    reply = parse(
        session.run("XREADGROUP", "GROUP", "g", "alice", "COUNT", 1, "CLAIM", 5, "STREAMS", "s", "t", ">", ">")
    )
    new = ["*", ["*", "$1-0", ["*", "$f", "$v"], ":0", ":0"]]
    assert reply == ["%", "$s", new, "$t", new]
    assert session.run("XREAD", "STREAMS", "s", "4-0") == b"_\r\n"


def test_plus_is_the_last_entry_that_exists(session: StreamSession) -> None:
    session.ask("XDEL s 4-0")
    assert ids_of(session.ask("XREAD COUNT 10 STREAMS s +")) == {"s": ["3-0"]}
    session.ask("XTRIM s MAXLEN 0")
    assert session.ask("XREAD STREAMS s nothing + +") is None


def test_a_group_or_key_called_streams_is_not_the_word(session: StreamSession) -> None:
    session.fill("STREAMS", "1-0")
    session.ask("XGROUP CREATE STREAMS STREAMS 0")
    reply = session.ask("XREADGROUP GROUP STREAMS STREAMS STREAMS STREAMS >")
    assert reply == [["STREAMS", [entry("1-0")]]]
    assert session.ask("COMMAND GETKEYS XREADGROUP GROUP STREAMS STREAMS STREAMS STREAMS >") == ["STREAMS"]


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_group_reader_that_was_woken_for_nothing_goes_to_the_end_of_the_queue(session: StreamSession) -> None:
    for key in ("s", "t"):
        session.ask(f"XGROUP SETID {key} g $")
    session.ask("XGROUP CREATE t other $")
    first, second = session.connect(), session.connect()
    first.run("XREADGROUP", "GROUP", "g", "alice", "BLOCK", 0, "STREAMS", "s", "t", ">", ">")
    second.run("XREADGROUP", "GROUP", "g", "bob", "BLOCK", 0, "STREAMS", "s", ">")
    session.ask("XGROUP DESTROY t other")
    assert first.waits
    session.ask("XADD s 5-0 f v")
    assert first.waits
    assert not second.waits


def test_a_dollar_means_what_it_meant_when_the_reader_came(session: StreamSession) -> None:
    reader = session.connect()
    reader.run("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
    session.ask("DEL s")
    session.ask("XADD s 4-0 f v")
    assert reader.waits
    session.ask("XADD s 4-1 f v")
    assert parse(reader.reply()) == ["*", ["*", "$s", ["*", ["*", "$4-1", ["*", "$f", "$v"]]]]]


def test_a_plus_means_the_last_entry_when_there_is_one(session: StreamSession) -> None:
    reader = session.connect()
    reader.run("XREAD", "BLOCK", 0, "STREAMS", "new", "+")
    for line in ("MULTI", "XADD new 1-0 f v", "XADD new 2-0 f v", "EXEC"):
        session.ask(line)
    assert parse(reader.reply()) == ["*", ["*", "$new", ["*", ["*", "$2-0", ["*", "$f", "$v"]]]]]


def test_a_blocked_group_reader_has_made_its_consumer(session: StreamSession) -> None:
    session.ask("XGROUP SETID s g $")
    session.connect().run("XREADGROUP", "GROUP", "g", "carol", "BLOCK", 0, "STREAMS", "s", ">")
    assert [consumer["name"] for consumer in session.info("XINFO CONSUMERS s g")] == ["carol"]


@pytest.mark.parametrize("line", ["XGROUP SETID s g 0", "XGROUP CREATE s other 0", "XSETID s 9-0", "XACK s g 1-0"])
def test_what_does_not_wake_a_reader(session: StreamSession, line: str) -> None:
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    reader = session.connect()
    reader.run("XREADGROUP", "GROUP", "g", "alice", "BLOCK", 0, "STREAMS", "s", ">")
    session.ask(line)
    assert reader.waits


def test_two_waits_that_end_in_the_same_millisecond_end_once_each(session: StreamSession) -> None:
    """The server crashed when a client was served and waited again with the deadline that it had."""
    reader = session.connect()
    reader.run("XREAD", "BLOCK", 50, "STREAMS", "s", "$")
    session.ask("XADD s 5-0 f v")
    assert reader.reply()
    reader.run("XREAD", "BLOCK", 50, "STREAMS", "s", "$")
    session.wait_ms(50)
    run_due(session.engine)
    assert reader.reply() == b"*-1\r\n"
    assert not reader.waits
