"""A message that is sent twice is added once: XADD IDMP and IDMPAUTO, XCFGSET, XIDMPRECORD (docs/behaviour.md 5.7)."""

import pytest

from support.stream_session import NOW, StreamSession


@pytest.fixture
def session() -> StreamSession:
    return StreamSession()


def figures(session: StreamSession) -> tuple[int, int, int, int]:
    """Return producers and messages remembered, messages ever recorded, and duplicates."""
    info = session.info("XINFO STREAM s")
    return info["pids-tracked"], info["iids-tracked"], info["iids-added"], info["iids-duplicates"]


def test_a_message_sent_twice_is_added_once(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    session.wait_ms(50)
    assert session.ask("XADD s IDMP p 1 * f other") == first == f"{NOW}-0"
    assert session.ask("XLEN s") == 1
    assert session.ask("XADD s IDMP p 2 * f v") == f"{NOW + 50}-0"
    assert session.ask("XADD s IDMP q 1 * f v") == f"{NOW + 50}-1"
    assert figures(session) == (2, 3, 3, 1)


def test_a_duplicate_does_not_trim(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    session.ask("XADD s * f v")
    assert session.ask("XADD s IDMP p 1 MAXLEN 0 * f v") == first
    assert session.ask("XLEN s") == 2
    assert session.ask("XADD s IDMP p 2 MAXLEN 1 * f v") == f"{NOW}-2"
    assert session.ask("XLEN s") == 1


def test_a_duplicate_is_known_although_its_entry_is_gone(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    session.ask(f"XDEL s {first}")
    assert session.ask("XADD s IDMP p 1 * f v") == first
    session.ask("XTRIM s MAXLEN 0")
    assert session.ask("XADD s IDMP p 1 * f v") == first
    assert session.ask("XLEN s") == 0


def test_a_duplicate_neither_wakes_nor_disturbs_anyone(session: StreamSession) -> None:
    session.ask("XADD s IDMP p 1 * f v")
    session.ask("WATCH s")
    other = session.connect()
    other.run("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
    session.connect().run("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
    assert other.waits
    session.ask("MULTI")
    assert session.ask("EXEC") == []


def test_the_automatic_id_comes_from_the_pairs_in_any_order(session: StreamSession) -> None:
    first = session.ask("XADD s IDMPAUTO p * a 1 b 2")
    assert session.ask("XADD s IDMPAUTO p * b 2 a 1") == first
    assert session.ask("XADD s IDMPAUTO p * a 2 b 1") != first
    assert session.ask("XADD s IDMPAUTO p * a1 b 2 x") != first
    assert session.ask("XADD s IDMPAUTO q * a 1 b 2") != first
    assert figures(session) == (2, 4, 4, 1)


def test_the_oldest_message_of_a_producer_is_forgotten_when_there_are_too_many(session: StreamSession) -> None:
    session.ask("XADD s * f v")
    session.ask("XCFGSET s IDMP-MAXSIZE 2")
    ids = {iid: session.ask(f"XADD s IDMP p {iid} * f v") for iid in (1, 2, 3)}
    assert session.ask("XADD s IDMP p 3 * f v") == ids[3]
    assert session.ask("XADD s IDMP p 2 * f v") == ids[2]
    assert session.ask("XADD s IDMP p 1 * f v") not in ids.values()
    assert figures(session) == (1, 2, 4, 2)


def test_age_counts_only_when_the_chores_are_done(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    session.wait_ms(100_000)
    assert session.ask("XADD s IDMP p 1 * f v") == first
    session.engine.tick()
    assert figures(session)[:2] == (0, 0)
    assert session.ask("XADD s IDMP p 1 * f v") == f"{NOW + 100_000}-0"


def test_what_is_young_enough_survives_the_chores(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    session.wait_ms(99_999)
    session.engine.tick()
    assert session.ask("XADD s IDMP p 1 * f v") == first


def test_a_setting_that_changes_clears_the_memory_and_an_equal_one_does_not(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    assert session.ask("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100") == "OK"
    assert session.ask("XADD s IDMP p 1 * f v") == first
    assert session.ask("XCFGSET s IDMP-DURATION 101") == "OK"
    assert session.ask("XADD s IDMP p 1 * f v") != first
    assert figures(session) == (1, 1, 2, 1)


def test_the_settings_of_a_new_stream_are_those_of_the_server(session: StreamSession) -> None:
    session.ask("CONFIG SET stream-idmp-duration 7 stream-idmp-maxsize 9")
    session.ask("XADD s * f v")
    session.ask("CONFIG SET stream-idmp-duration 8")
    info = session.info("XINFO STREAM s")
    assert (info["idmp-duration"], info["idmp-maxsize"]) == (7, 9)


@pytest.mark.parametrize("line", ["RENAME s t", "COPY s t", "MOVE s 1"])
def test_the_memory_goes_where_the_stream_goes(session: StreamSession, line: str) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    assert session.ask(line) in ("OK", 1)
    if line.startswith("MOVE"):
        session.ask("SELECT 1")
        session.ask("RENAME s t")
    assert session.ask("XADD t IDMP p 1 * f v") == first
    assert session.ask("DEL t") == 1
    assert session.ask("XADD t IDMP p 1 * f v") == f"{NOW}-0"
    assert session.ask("XLEN t") == 1


def test_the_memory_survives_dump_and_restore(session: StreamSession) -> None:
    first = session.ask("XADD s IDMP p 1 * f v")
    payload = session.run("DUMP", "s").split(b"\r\n", 1)[1][:-2]
    assert session.run("RESTORE", "t", 0, payload) == b"+OK\r\n"
    assert session.ask("XADD t IDMP p 1 * f v") == first


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("IDMP p 1 IDMP p 2 *", "-ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        ("IDMPAUTO p IDMP p 2 *", "-ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        ("IDMP p 1 5-0", "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("IDMPAUTO p 5-*", "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("IDMP  1 *", "-ERR syntax error, IDMP requires a non-empty producer ID"),
        ("IDMP p  *", "-ERR syntax error, IDMP requires a non-empty idempotent ID"),
        ("IDMPAUTO  *", "-ERR syntax error, IDMPAUTO requires a non-empty producer ID"),
    ],
)
def test_idempotence_is_refused_in_redis_words(session: StreamSession, words: str, refusal: str) -> None:
    assert session.ask(f"XADD s {words} f v") == refusal
    assert session.ask("EXISTS s") == 0


def test_an_idempotent_id_may_be_a_star(session: StreamSession) -> None:
    assert session.ask("XADD s IDMP p * * f v") == session.ask("XADD s IDMP p * * f v") == f"{NOW}-0"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("none IDMP-DURATION 5", "-ERR no such key"),
        ("text IDMP-DURATION 5", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("s", "-ERR At least one parameter must be specified"),
        ("s IDMP-DURATION", "-ERR syntax error"),
        ("s OTHER 5", "-ERR syntax error"),
        ("s IDMP-DURATION 0", "-ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("s IDMP-DURATION 86401", "-ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("s IDMP-MAXSIZE 10001", "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("s IDMP-MAXSIZE x", "-ERR value is not an integer or out of range"),
        ("s IDMP-MAXSIZE 5 IDMP-MAXSIZE 5", "-ERR IDMP-MAXSIZE specified multiple times"),
        ("s IDMP-DURATION 5 IDMP-DURATION 5", "-ERR IDMP-DURATION specified multiple times"),
    ],
)
def test_xcfgset_refuses_in_redis_words(session: StreamSession, words: str, refusal: str) -> None:
    session.ask("XADD s 1-0 f v")
    session.ask("SET text v")
    assert session.ask(f"XCFGSET {words}") == refusal


def test_xidmprecord_makes_a_message_known(session: StreamSession) -> None:
    session.ask("XADD s 5-0 f v")
    assert session.ask("XIDMPRECORD s p 1 5-0") == "OK"
    assert session.ask("XIDMPRECORD s p 1 5-0") == "OK"
    assert figures(session) == (1, 1, 1, 0)
    assert session.ask("XADD s IDMP p 1 * f v") == "5-0"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("s p 1 bad", "-ERR Invalid stream ID specified as stream command argument"),
        ("s  1 5-0", "-ERR producer ID must be non-empty"),
        ("s p  5-0", "-ERR idempotent ID must be non-empty"),
        ("none p 1 5-0", "-ERR no such key"),
        ("text p 1 5-0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("s p 1 9-0", "-ERR No such message in stream"),
        ("s known 1 6-0", "-ERR IID already exists for this producer with a different stream ID"),
    ],
)
def test_xidmprecord_refuses_in_redis_words(session: StreamSession, words: str, refusal: str) -> None:
    session.fill("s", "5-0", "6-0")
    session.ask("SET text v")
    session.ask("XIDMPRECORD s known 1 5-0")
    assert session.ask(f"XIDMPRECORD {words}") == refusal
