"""What stream commands hand over to be repeated: deterministic commands, and only where something changed.

docs/behaviour.md 7.1 lists them. The last test repeats the effects of random histories in a second engine, which
then has the same data.
"""

import random

import pytest

from headrace.engine.applier import Applier
from support.campaign import LONG, SEED
from support.stream_session import NOW, StreamSession

HISTORIES = 200 if LONG else 12
COMMANDS = 300


@pytest.fixture
def session() -> StreamSession:
    """Four entries, in nodes of two, and a group that has been given nothing."""
    session = StreamSession()
    session.ask("CONFIG SET stream-node-max-entries 2")
    session.fill("s", "1-0", "2-0", "3-0", "4-0")
    session.ask("XGROUP CREATE s g 0")
    session.effects()
    return session


def claim(id: str, deliveries: int, last_id: str, consumer: str = "alice", time: int = NOW) -> str:
    """Write the effect of a record that a consumer owns."""
    return f"XCLAIM s g {consumer} 0 {id} TIME {time} RETRYCOUNT {deliveries} FORCE JUSTID LASTID {last_id}"


def new_consumer(name: str) -> list[str]:
    """Write the effects of a consumer that is new and got nothing."""
    return [f"XGROUP CREATECONSUMER s g {name}", f"HEADRACE SEEN s g {name} {NOW} -1"]


# --- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("XADD s 5-0 f v", "XADD s 5-0 f v"),
        ("XADD s * f v", f"XADD s {NOW}-0 f v"),
        ("XADD s 5-* f v", "XADD s 5-0 f v"),
        ("XADD s NOMKSTREAM MAXLEN 2 5-0 f v", "XADD s NOMKSTREAM MAXLEN 2 5-0 f v"),
        ("XADD s MAXLEN ~ 2 5-0 f v", "XADD s MAXLEN = 3 5-0 f v"),
        ("XADD s MAXLEN ~ 100 5-0 f v", "XADD s MAXLEN = 5 5-0 f v"),
        ("XADD s MINID ~ 4-0 5-0 f v", "XADD s MINID = 3-0 5-0 f v"),
        ("XADD s MINID ~ 4-0 LIMIT 100 * f v", f"XADD s MINID = 3-0 LIMIT 100 {NOW}-0 f v"),
        ("XADD s IDMP p 1 * f v", f"XADD s IDMP p 1 {NOW}-0 f v"),
        ("XTRIM s MAXLEN 2", "XTRIM s MAXLEN 2"),
        ("XTRIM s MAXLEN ~ 1", "XTRIM s MAXLEN = 2"),
        ("XTRIM s MINID ~ 4-0", "XTRIM s MINID = 3-0"),
        ("XTRIM s MAXLEN ~ 0 LIMIT 0", "XTRIM s MAXLEN = 0 LIMIT 0"),
        ("XTRIM s MINID ~ 9-0", "XTRIM s MINID = 18446744073709551615-18446744073709551615"),
        ("XTRIM s MINID ~ 3-0 DELREF", "XTRIM s MINID = 3-0 DELREF"),
        ("XTRIM s MINID ~ 9-0 LIMIT 2 DELREF", "XTRIM s MINID = 3-0 LIMIT 2 DELREF"),
        ("XDEL s 1-0 9-0", "XDEL s 1-0 9-0"),
        ("XDELEX s ACKED IDS 1 9-0", None),
        ("XDELEX s IDS 2 1-0 9-0", "XDELEX s IDS 2 1-0 9-0"),
        ("XSETID s 9-0", "XSETID s 9-0"),
        ("XCFGSET s IDMP-MAXSIZE 5", "XCFGSET s IDMP-MAXSIZE 5"),
        ("XCFGSET s IDMP-MAXSIZE 100", None),
        ("XIDMPRECORD s p 1 1-0", "XIDMPRECORD s p 1 1-0"),
        ("XTRIM s MAXLEN 4", None),
        ("XDEL s 9-0", None),
        ("XADD none NOMKSTREAM * f v", None),
        ("XADD s 1-0 f v", None),
        ("XRANGE s - +", None),
        ("XREAD STREAMS s 0", None),
        ("XINFO STREAM s", None),
    ],
)
def test_what_a_command_on_entries_hands_over(session: StreamSession, line: str, effect: str | None) -> None:
    changes = session.changes()
    session.ask(line)
    assert session.effects() == ([] if effect is None else [effect])
    assert (session.changes() == changes) == (effect is None)


def test_an_approximate_trim_by_id_names_the_first_entry_that_is_stored_even_if_deleted(session: StreamSession) -> None:
    session.ask("XDEL s 3-0")
    session.effects()
    session.ask("XTRIM s MINID ~ 4-0")
    assert session.effects() == ["XTRIM s MINID = 3-0"]


@pytest.mark.parametrize(
    ("trim", "effect"),
    [
        ("MAXLEN ~ 0", "MAXLEN = 0"),
        ("MAXLEN 0", "MAXLEN 0"),
        ("MAXLEN = 3", "MINID = 2-1"),
        ("MAXLEN 3", "MINID 2-1"),
        ("MAXLEN ~ 1 LIMIT 2", "MINID = 3-0 LIMIT 2"),
        ("MINID ~ 9-0", "MINID = 9-0"),
        ("MINID ~ 9-0 LIMIT 2", "MINID = 3-0 LIMIT 2"),
        ("MINID 9-0", "MINID 9-0"),
    ],
)
def test_a_trim_of_what_is_acknowledged_says_how_far_it_has_looked(
    session: StreamSession, trim: str, effect: str
) -> None:
    session.ask("XREADGROUP GROUP g alice STREAMS s >")
    session.ask("XACK s g 2-0 4-0")
    session.effects()
    session.ask(f"XTRIM s {trim} ACKED")
    assert session.effects() == [f"XTRIM s {effect} ACKED"]


def test_of_a_duplicate_message_it_is_handed_over_that_there_was_one(session: StreamSession) -> None:
    session.ask("XADD s IDMP p 1 * f v")
    session.effects()
    session.ask("XADD s IDMP p 1 * f v")
    assert session.effects() == ["HEADRACE IDMPREPEAT s"]


def test_messages_that_are_forgotten_are_handed_over(session: StreamSession) -> None:
    for producer in "ppq":
        session.ask(f"XADD s IDMP {producer} {session.now_ms} * f v")
        session.wait_ms(60_000)
    session.effects()
    session.engine.tick()
    assert session.effects() == ["HEADRACE IDMPFORGET s p 2"]


def test_a_stream_that_is_not_made_with_the_defaults_says_so(session: StreamSession) -> None:
    session.ask("CONFIG SET stream-idmp-maxsize 7")
    settings = "HEADRACE IDMPLIMITS made 100 7"
    for line in ("XADD made 1-0 f v", "XADD made IDMP p 1 * f v", "XGROUP CREATE made g 0 MKSTREAM"):
        session.ask(line)
        [effect, followed] = session.effects()
        assert effect.split()[0] == line.split()[0]
        assert followed == settings
        session.ask("DEL made")
        session.effects()


@pytest.mark.parametrize("version", ["7.0", "7.2"])
def test_a_server_that_knows_no_producers_gets_plain_entries(session: StreamSession, version: str) -> None:
    session.ask(f"CONFIG SET rdb-compatibility-version {version}")
    session.ask("XADD s IDMP p 1 MAXLEN 4 * f v")
    assert session.effects() == [f"XADD s MAXLEN 4 {NOW}-0 f v", f"HEADRACE IDMPRECORD s p 1 {NOW}-0"]
    session.ask("XADD s MAXLEN 4 IDMPAUTO q * f v")
    [plain, record] = session.effects()
    assert plain == f"XADD s MAXLEN 4 {NOW}-1 f v"
    assert record.startswith("HEADRACE IDMPRECORD s q ")
    session.ask(f"XIDMPRECORD s p 2 {NOW}-0")
    assert session.effects() == [f"HEADRACE IDMPRECORD s p 2 {NOW}-0"]
    session.ask("XCFGSET s IDMP-MAXSIZE 5")
    assert session.effects() == ["HEADRACE IDMPFORGET s p 2 q 1", "HEADRACE IDMPLIMITS s 100 5"]


@pytest.mark.parametrize("version", ["7.0", "7.2"])
@pytest.mark.parametrize(
    ("line", "effects"),
    [
        ("XADD s KEEPREF 9-0 f v", ["XADD s 9-0 f v"]),
        ("XADD s KEEPREF MAXLEN 2 9-0 f v", ["XADD s MAXLEN 2 9-0 f v"]),
        ("XADD s DELREF MAXLEN 3 9-0 f v", ["XACK s g 1-0", "XACK s g 2-0", "XADD s MAXLEN 3 9-0 f v"]),
        ("XADD s ACKED MAXLEN 1 9-0 f v", ["XADD s 9-0 f v", "XDEL s 3-0 4-0"]),
        ("XADD s IDMP p 1 DELREF MAXLEN 4 * f v", ["XACK s g 1-0", f"XADD s MAXLEN 4 {NOW}-0 f v"]),
        ("XTRIM s MAXLEN 2 KEEPREF", ["XTRIM s MAXLEN 2"]),
        ("XTRIM s MAXLEN ~ 1 DELREF", ["XACK s g 1-0", "XACK s g 2-0", "XTRIM s MAXLEN = 1"]),
        ("XTRIM s MINID 9-0 ACKED", ["XDEL s 3-0 4-0"]),
        ("XTRIM s MINID 2-0 ACKED", []),
        ("XDELEX s IDS 2 1-0 7-0", ["XDEL s 1-0"]),
        ("XDELEX s ACKED IDS 2 1-0 3-0", ["XDEL s 3-0"]),
        ("XDELEX s DELREF IDS 2 1-0 3-0", ["XACK s g 1-0", "XDEL s 1-0 3-0"]),
        ("XDELEX s IDS 1 7-0", []),
        ("XACKDEL s g IDS 2 1-0 3-0", ["XACK s g 1-0", "XDEL s 1-0"]),
        ("XACKDEL s g DELREF IDS 1 1-0", ["XACK s g 1-0", "XDEL s 1-0"]),
        ("XACKDEL s g ACKED IDS 1 7-0", []),
    ],
)
def test_a_server_that_knows_no_policies_gets_what_they_did(
    session: StreamSession, version: str, line: str, effects: list[str]
) -> None:
    session.ask(f"CONFIG SET rdb-compatibility-version {version}")
    session.ask("XREADGROUP GROUP g alice COUNT 3 STREAMS s >")
    session.ask("XGROUP SETID s g 4-0")
    session.ask("XACK s g 3-0")
    session.effects()
    session.ask(line)
    assert [effect for effect in session.effects() if not effect.startswith("HEADRACE")] == effects


@pytest.mark.parametrize("version", ["7.0", "7.2", "8.6"])
def test_a_server_that_knows_no_released_records_gets_them_with_an_owner(session: StreamSession, version: str) -> None:
    session.ask(f"CONFIG SET rdb-compatibility-version {version}")
    session.ask("XREADGROUP GROUP g alice COUNT 2 STREAMS s >")
    session.effects()
    session.ask("XNACK s g FAIL IDS 2 1-0 7-0")
    assert session.effects() == [
        claim("1-0", 1, "2-0", consumer="headrace-released", time=0),
        "HEADRACE RELEASE s g headrace-released 1-0 1",
    ]
    session.ask("XGROUP CREATECONSUMER s g headrace-released")
    session.effects()
    session.ask("XNACK s g FATAL IDS 1 2-0")
    assert session.effects() == [
        claim("2-0", 2**63 - 1, "2-0", consumer="headrace-released", time=0),
        f"HEADRACE RELEASE s g  2-0 {2**63 - 1}",
        f"HEADRACE SEEN s g headrace-released {NOW} -1",
    ]


def test_deleting_references_only_is_a_change(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g alice STREAMS s >")
    session.ask("XDEL s 1-0")
    session.effects()
    session.ask("XDELEX s DELREF IDS 1 1-0")
    assert session.effects() == ["XDELEX s DELREF IDS 1 1-0"]


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "handed_over"),
    [
        ("XGROUP CREATE s new $", True),
        ("XGROUP CREATE s g $", False),
        ("XGROUP CREATE fresh new $ MKSTREAM", True),
        ("XGROUP SETID s g $", True),
        ("XGROUP DESTROY s g", True),
        ("XGROUP DESTROY s none", False),
        ("XGROUP CREATECONSUMER s g bob", False),
        ("XGROUP DELCONSUMER s g bob", True),
        ("XGROUP DELCONSUMER s g none", False),
        ("XACK s g 1-0", True),
        ("XACK s g 4-0", False),
        ("XACKDEL s g ACKED IDS 2 1-0 4-0", True),
        ("XACKDEL s g IDS 1 4-0", False),
        ("XNACK s g FAIL IDS 1 1-0", True),
        ("XNACK s g FAIL IDS 1 4-0", False),
        ("XPENDING s g", False),
    ],
)
def test_commands_on_groups_are_handed_over_as_they_came_where_they_changed_something(
    session: StreamSession, line: str, handed_over: bool
) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.effects()
    session.ask(line)
    assert session.effects() == ([line] if handed_over else [])


def test_a_group_read_hands_over_its_records_then_its_position(session: StreamSession) -> None:
    changes = session.changes()
    session.ask("XREADGROUP GROUP g alice COUNT 2 STREAMS s >")
    assert session.effects() == [
        claim("1-0", 1, "0-0"),
        claim("2-0", 1, "0-0"),
        "XGROUP SETID s g 2-0 ENTRIESREAD 2",
    ]
    assert session.changes() == changes + 2, "one for the read, one for the consumer"
    session.ask("XREADGROUP GROUP g alice COUNT 1 STREAMS s >")
    assert session.effects() == [claim("3-0", 1, "2-0"), "XGROUP SETID s g 3-0 ENTRIESREAD 3"]
    assert session.changes() == changes + 3


def test_a_group_read_without_acknowledgements_hands_over_its_position_and_a_new_consumer(
    session: StreamSession,
) -> None:
    session.ask("XREADGROUP GROUP g alice COUNT 2 NOACK STREAMS s >")
    assert session.effects() == ["XGROUP SETID s g 2-0 ENTRIESREAD 2", *new_consumer("alice")]
    session.ask("XREADGROUP GROUP g alice NOACK STREAMS s >")
    assert session.effects() == ["XGROUP SETID s g 4-0 ENTRIESREAD 4"]


def test_an_unknown_position_is_handed_over_as_unknown(session: StreamSession) -> None:
    session.ask("XDEL s 3-0")
    session.effects()
    session.ask("XREADGROUP GROUP g alice COUNT 1 NOACK STREAMS s >")
    assert session.effects()[0] == "XGROUP SETID s g 1-0 ENTRIESREAD -1"


def test_a_group_read_that_finds_nothing_hands_over_a_new_consumer_once(session: StreamSession) -> None:
    session.ask("XGROUP SETID s g $")
    session.effects()
    for expected in (new_consumer("alice"), []):
        session.ask("XREADGROUP GROUP g alice STREAMS s >")
        assert session.effects() == expected


def test_reading_again_what_is_pending_hands_over_that_it_was_delivered_once_more(session: StreamSession) -> None:
    """Redis does not propagate that, so that after a restart its delivery count is too low."""
    session.ask("XREADGROUP GROUP g alice COUNT 2 STREAMS s >")
    session.effects()
    session.wait_ms(5)
    session.ask("XREADGROUP GROUP g alice COUNT 1 STREAMS s 0")
    seen = f"HEADRACE SEEN s g alice {NOW + 5} {NOW}"
    assert session.effects() == [claim("1-0", 2, "2-0", time=NOW + 5), seen]
    session.ask("XREADGROUP GROUP g alice STREAMS s 2-0")
    assert session.effects() == []


def test_a_consumer_that_was_made_says_when(session: StreamSession) -> None:
    session.ask("XGROUP CREATECONSUMER s g alice")
    assert session.effects() == new_consumer("alice")


def test_a_claiming_read_hands_over_what_it_took_over(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 1 STREAMS s >")
    session.wait_ms(100)
    session.effects()
    session.ask("XREADGROUP GROUP g alice COUNT 2 CLAIM 50 STREAMS s >")
    assert session.effects() == [
        claim("1-0", 2, "1-0", time=NOW + 100),
        claim("2-0", 1, "1-0", time=NOW + 100),
        "XGROUP SETID s g 2-0 ENTRIESREAD 2",
    ]


def test_xclaim_hands_over_each_record_as_it_is_now(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.effects()
    session.ask("XCLAIM s g alice 0 1-0 2-0 4-0 IDLE 1000 RETRYCOUNT 7")
    assert session.effects() == [
        claim("1-0", 7, "2-0", time=NOW - 1000),
        claim("2-0", 7, "2-0", time=NOW - 1000),
        f"HEADRACE SEEN s g alice {NOW} {NOW}",
    ]


def test_a_claim_that_only_moves_the_group_hands_over_its_position(session: StreamSession) -> None:
    session.ask("XGROUP CREATECONSUMER s g alice")
    session.effects()
    session.ask("XCLAIM s g alice 0 1-0 LASTID 3-0")
    assert session.effects() == ["XGROUP SETID s g 3-0 ENTRIESREAD -1"]


def test_claims_that_find_nothing_hand_over_a_new_consumer_once(session: StreamSession) -> None:
    """Redis makes the consumer, but does not propagate it: after a restart it was not there."""
    for expected in ([*new_consumer("alice"), *new_consumer("carol")], []):
        session.ask("XCLAIM s g alice 0 1-0")
        session.ask("XAUTOCLAIM s g carol 0 0")
        assert session.effects() == expected


def test_records_of_entries_that_are_gone_are_handed_over_as_settled(session: StreamSession) -> None:
    session.ask("XREADGROUP GROUP g bob COUNT 2 STREAMS s >")
    session.ask("XDEL s 1-0")
    session.effects()
    session.ask("XAUTOCLAIM s g alice 0 0 JUSTID")
    assert session.effects() == ["XACK s g 1-0", claim("2-0", 1, "2-0")]


def test_a_transaction_hands_over_everything_at_once(session: StreamSession) -> None:
    session.take_effects()
    for line in ("MULTI", "XADD s 5-0 f v", "XLEN s", "XREADGROUP GROUP g alice COUNT 1 STREAMS s >", "EXEC"):
        session.ask(line)
    assert [[words[0] for _, words in unit] for unit in session.recorded.units] == [[b"XADD", b"XCLAIM", b"XGROUP"]]


def test_effects_name_their_database(session: StreamSession) -> None:
    session.ask("SELECT 3")
    session.ask("XADD s 1-0 f v")
    assert session.take_effects() == [(3, [b"XADD", b"s", b"1-0", b"f", b"v"])]


def test_a_reader_that_waited_hands_over_what_it_was_given(session: StreamSession) -> None:
    session.ask("XGROUP SETID s g $")
    reader = session.connect()
    reader.run("XREADGROUP", "GROUP", "g", "alice", "BLOCK", 0, "STREAMS", "s", ">")
    session.effects()
    session.ask("XADD s 5-0 f v")
    assert session.effects() == ["XADD s 5-0 f v", claim("5-0", 1, "4-0"), "XGROUP SETID s g 5-0 ENTRIESREAD 5"]


# --- repeating -------------------------------------------------------------------------------------------------------


class History:
    """Random commands on one stream, with everything that 8.10 knows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.last = 0

    def line(self) -> str:
        pick = self.random.choice
        id = f"{self.random.randint(1, self.last + 1)}-0"
        ids = " ".join(f"{self.random.randint(1, self.last + 1)}-0" for _ in range(3))
        consumer, group, policy = pick(("alice", "bob")), pick(("g", "h")), pick(("KEEPREF", "DELREF", "ACKED"))
        trim = pick((f"MAXLEN ~ {pick((0, 3, 10))}", f"MAXLEN {pick((5, 20))}", f"MINID ~ {id}", f"MINID {id}"))
        options = pick(("", "", "", "", f"{policy} ", f"{trim} ", f"{policy} {trim} "))
        mode = pick(("", "NOACK ", "CLAIM 5 "))
        self.last += 1
        return pick(
            (
                *(f"XADD s {options}{self.last}-0 f {pick(('1', 'x'))}",) * 6,
                f"XTRIM s {trim} {policy}",
                f"XDEL s {ids}",
                f"XDELEX s {policy} IDS 3 {ids}",
                f"XGROUP CREATE s {group} {pick(('0', '$', id))} MKSTREAM",
                f"XGROUP CREATE s {group} 0 MKSTREAM",
                f"XGROUP SETID s {group} {id}",
                f"XGROUP {pick(('CREATECONSUMER', 'DELCONSUMER'))} s {group} {consumer}",
                *(f"XREADGROUP GROUP {group} {consumer} COUNT {pick((1, 5))} {mode}STREAMS s >",) * 4,
                f"XACK s {group} {ids}",
                f"XACKDEL s {group} {policy} IDS 3 {ids}",
                f"XNACK s {group} {pick(('SILENT', 'FAIL', 'FATAL'))} IDS 3 {ids} {pick(('FORCE', 'RETRYCOUNT 3'))}",
                f"XCLAIM s {group} {consumer} {pick((0, 8))} {ids} {pick(('FORCE', 'JUSTID', 'IDLE 20'))}",
                f"XAUTOCLAIM s {group} {consumer} {pick((0, 8))} 0 COUNT 3",
                f"XCFGSET s IDMP-MAXSIZE {pick((2, 3))}",
                f"XADD future IDMP {pick('pq')} {pick('123')} * f v",
            )
        ).replace("  ", " ")


def facts(session: StreamSession, key: str) -> object:
    """Return what must be the same: everything that XINFO says, except when consumers last asked."""
    info = session.info(f"XINFO STREAM {key} FULL COUNT 0")
    if isinstance(info, dict):
        for group in info["groups"]:
            for consumer in group["consumers"]:
                del consumer["seen-time"]
    return info


@pytest.mark.parametrize("seed", [SEED] if SEED is not None else range(HISTORIES))
def test_effects_repeated_elsewhere_give_the_same_data(seed: int) -> None:
    original, copy = StreamSession(), StreamSession()
    original.ask("CONFIG SET stream-node-max-entries 4")
    copy.ask("CONFIG SET stream-node-max-entries 4")
    history = History(seed)
    for step in range(COMMANDS):
        line = history.line()
        original.wait_ms(history.random.choice((0, 1, 10)))
        copy.set_clock(original.now_ms)
        original.ask(line)
        for _, words in original.take_effects():
            error = Applier(copy.engine, copy.now_ms).run(words)
            assert error is None, f"HEADRACE_SEED={seed}, step {step}, {line}: {words} gives {error!r}"
        for key in ("s", "future"):
            assert facts(copy, key) == facts(original, key), f"HEADRACE_SEED={seed}, step {step}: {line}"
