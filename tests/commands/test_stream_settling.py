"""XNACK, XDELEX, XACKDEL, and trimming by reference: what 8.2 and 8.8 added (docs/behaviour.md 4.9 to 4.13)."""

import pytest

from support.stream_session import StreamSession, entry, ids_of

MOST = 2**63 - 1


@pytest.fixture
def session() -> StreamSession:
    """Five entries; two groups that were given all of them."""
    session = StreamSession()
    session.fill("s", "1-0", "2-0", "3-0", "4-0", "5-0")
    for group in ("g", "h"):
        session.ask(f"XGROUP CREATE s {group} 0")
        session.ask(f"XREADGROUP GROUP {group} bob STREAMS s >")
    return session


def references(session: StreamSession, group: str) -> list[str]:
    return [record[0] for record in session.pending("s", group)]


# --- XNACK -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "deliveries"), [("SILENT", 0), ("FAIL", 1), ("FATAL", MOST), ("silent", 0)])
def test_xnack_takes_the_entry_from_its_owner_and_judges_the_delivery(
    session: StreamSession, mode: str, deliveries: int
) -> None:
    assert session.ask(f"XNACK s g {mode} IDS 1 2-0") == 1
    assert session.pending("s", "g")[1] == ["2-0", "", -1, deliveries]
    assert session.ask("XPENDING s g") == [5, "1-0", "5-0", [["bob", "4"]]]
    assert session.ask("XPENDING s g - + 10 bob")[1][0] == "3-0"


def test_silence_does_not_count_below_nothing(session: StreamSession) -> None:
    for _ in range(3):
        assert session.ask("XNACK s g SILENT IDS 1 2-0") == 1
    assert session.pending("s", "g")[1][3] == 0


def test_a_retrycount_overrides_the_judgement_of_xnack(session: StreamSession) -> None:
    assert session.ask("XNACK s g FATAL RETRYCOUNT 7 IDS 1 2-0") == 1
    assert session.ask("XNACK s g SILENT IDS 1 3-0 RETRYCOUNT 0") == 1
    assert [record[3] for record in session.pending("s", "g")] == [1, 7, 0, 1, 1]


def test_xnack_passes_what_is_not_pending_unless_forced(session: StreamSession) -> None:
    session.ask("XACK s g 1-0 2-0")
    assert session.ask("XNACK s g FAIL IDS 3 1-0 9-0 3-0") == 1
    assert session.ask("XNACK s g FAIL IDS 3 1-0 9-0 3-0 FORCE") == 2
    assert session.pending("s", "g")[0] == ["1-0", "", -1, 0]
    assert session.ask("XNACK s g FATAL IDS 1 2-0 FORCE") == 1
    assert session.pending("s", "g")[1] == ["2-0", "", -1, MOST]


def test_xnack_counts_an_id_as_often_as_it_is_given(session: StreamSession) -> None:
    assert session.ask("XNACK s g SILENT IDS 3 1-0 1-0 1-0") == 3


def test_released_entries_are_claimed_in_the_order_of_their_release(session: StreamSession) -> None:
    session.ask("XNACK s g FAIL IDS 3 4-0 2-0 3-0")
    session.ask("XNACK s g FAIL IDS 1 4-0")
    reply = session.ask("XREADGROUP GROUP g alice CLAIM 1000 STREAMS s >")
    assert ids_of(reply) == {"s": ["2-0", "3-0", "4-0"]}


def test_released_entries_are_idle_enough_for_every_claim(session: StreamSession) -> None:
    session.ask("XNACK s g FAIL IDS 2 2-0 3-0")
    assert session.ask("XCLAIM s g alice 99999 1-0 2-0") == [entry("2-0")]
    assert session.ask("XAUTOCLAIM s g alice 99999 0") == ["0-0", [entry("3-0")], []]
    assert session.ask("XPENDING s g IDLE 99999 - + 10") == []
    session.ask("XNACK s g FAIL IDS 1 5-0")
    assert session.ask("XPENDING s g IDLE 99999 - + 10") == [["5-0", "", -1, 1]]


def test_a_record_with_an_owner_and_time_zero_is_not_among_the_released(session: StreamSession) -> None:
    session.ask("XCLAIM s g bob 0 5-0 TIME 0")
    session.ask("XNACK s g FAIL IDS 1 1-0")
    reply = session.ask("XREADGROUP GROUP g alice COUNT 2 CLAIM 1000 STREAMS s >")
    assert ids_of(reply) == {"s": ["1-0", "5-0"]}
    [group, _] = session.info("XINFO STREAM s FULL")["groups"]
    assert group["nacked-count"] == 0


def test_xinfo_shows_released_records_without_owner_and_time(session: StreamSession) -> None:
    session.ask("XNACK s g FAIL IDS 1 1-0")
    [group, _] = session.info("XINFO STREAM s FULL")["groups"]
    assert (group["pel-count"], group["nacked-count"], group["pending"][0]) == (5, 1, ["1-0", "", 0, 1])
    assert [record[0] for record in group["consumers"][0]["pending"]] == ["2-0", "3-0", "4-0", "5-0"]


def test_released_records_can_be_acknowledged_and_survive_their_consumer(session: StreamSession) -> None:
    session.ask("XNACK s g FAIL IDS 2 1-0 2-0")
    assert session.ask("XGROUP DELCONSUMER s g bob") == 3
    assert references(session, "g") == ["1-0", "2-0"]
    assert session.ask("XPENDING s g") == [2, "1-0", "2-0", []]
    assert session.ask("XACK s g 1-0") == 1
    assert references(session, "g") == ["2-0"]


def test_a_released_record_that_is_delivered_again_after_setid_begins_anew(session: StreamSession) -> None:
    session.ask("XNACK s g FATAL IDS 1 5-0")
    session.ask("XGROUP SETID s g 4-0")
    assert ids_of(session.ask("XREADGROUP GROUP g alice STREAMS s >")) == {"s": ["5-0"]}
    assert session.pending("s", "g")[4] == ["5-0", "alice", 0, 1]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("s none FAIL IDS 1 1-0", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("none g FAIL IDS 1 1-0", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("s g LOUD IDS 1 1-0", "-ERR mode must be SILENT, FAIL, or FATAL"),
        ("s g FAIL IDS x 1-0", "-ERR numids must be a positive integer"),
        ("s g FAIL IDS 0 1-0", "-ERR numids must be a positive integer"),
        ("s g FAIL IDS 2147483648 1-0", "-ERR numids must be a positive integer"),
        ("s g FAIL IDS 2 1-0", "-ERR number of IDs doesn't match numids"),
        ("s g FAIL IDS 1 1-0 2-0", "-ERR Unrecognized XNACK option '2-0'"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT", "-ERR Unrecognized XNACK option 'RETRYCOUNT'"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT x", "-ERR value is not an integer or out of range"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT -1", "-ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("s g FAIL FORCE RETRYCOUNT 1", "-ERR syntax error, expected IDS keyword"),
        ("s g FAIL IDS 2 1-0 bad", "-ERR Invalid stream ID specified as stream command argument"),
        ("text g LOUD IDS x y", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_xnack_refuses_in_redis_words_and_changes_nothing(session: StreamSession, words: str, refusal: str) -> None:
    session.ask("SET text v")
    before = session.pending("s", "g")
    assert session.ask(f"XNACK {words}") == refusal
    assert session.pending("s", "g") == before


# --- XDELEX ----------------------------------------------------------------------------------------------------------


def test_xdelex_keeps_references_unless_told(session: StreamSession) -> None:
    assert session.ask("XDELEX s IDS 3 1-0 9-0 1-0") == [1, -1, -1]
    assert session.ask("XDELEX s KEEPREF IDS 1 2-0") == [1]
    assert references(session, "g") == ["1-0", "2-0", "3-0", "4-0", "5-0"]


def test_xdelex_delref_takes_the_entry_off_every_pending_list(session: StreamSession) -> None:
    assert session.ask("XDELEX s IDS 2 1-0 3-0 DELREF") == [1, 1]
    assert references(session, "g") == references(session, "h") == ["2-0", "4-0", "5-0"]


def test_xdelex_delref_drops_references_of_entries_that_are_gone(session: StreamSession) -> None:
    session.ask("XDEL s 1-0")
    before = session.changes()
    assert session.ask("XDELEX s DELREF IDS 1 1-0") == [-1]
    assert references(session, "g") == references(session, "h") == ["2-0", "3-0", "4-0", "5-0"]
    assert session.changes() == before + 1


def test_xdelex_acked_deletes_only_what_no_group_refers_to(session: StreamSession) -> None:
    session.ask("XACK s g 1-0 2-0")
    session.ask("XACK s h 1-0")
    assert session.ask("XDELEX s ACKED IDS 3 1-0 2-0 3-0") == [1, 2, 2]
    assert session.ask("XLEN s") == 4


def test_what_a_group_was_not_given_yet_is_referred_to_even_where_there_is_no_entry(session: StreamSession) -> None:
    session.ask("XACK s g 1-0 2-0 3-0 4-0 5-0")
    session.ask("XACK s h 1-0 2-0 3-0 4-0 5-0")
    session.ask("XGROUP CREATE s slow 2-0")
    assert session.ask("XDELEX s ACKED IDS 5 1-0 3-0 9-0 1-5 2-0") == [1, 2, 2, -1, 1]
    session.ask("XGROUP DESTROY s slow")
    assert session.ask("XDELEX s ACKED IDS 2 3-0 9-0") == [1, 2]


def test_without_groups_nothing_is_referred_to(session: StreamSession) -> None:
    session.fill("alone", "1-0")
    assert session.ask("XDELEX alone ACKED IDS 2 1-0 2-0") == [1, -1]


def test_xdelex_of_a_missing_key_does_not_look_at_the_ids(session: StreamSession) -> None:
    assert session.ask("XDELEX none ACKED IDS 2 bad worse") == [-1, -1]
    assert session.ask("XACKDEL none g IDS 2 bad worse") == [-1, -1]
    assert session.ask("XACKDEL s none IDS 2 bad worse") == [-1, -1]


@pytest.mark.parametrize("command", ["XDELEX s", "XACKDEL s g"])
@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("IDS x 1-0", "-ERR Number of IDs must be a positive integer"),
        ("IDS 0 1-0", "-ERR Number of IDs must be a positive integer"),
        ("IDS 3 1-0 2-0", "-ERR The `numids` parameter must match the number of arguments"),
        ("IDS 1 1-0 2-0", "-ERR syntax error"),
        ("KEEPREF ACKED IDS 1 1-0", "-ERR syntax error"),
        ("KEEPREF 1-0 2-0", "-ERR syntax error"),
        ("IDS 2 1-0 bad", "-ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_blocks_of_ids_are_refused_whole(session: StreamSession, command: str, words: str, refusal: str) -> None:
    assert session.ask(f"{command} {words}") == refusal
    assert session.ask("XLEN s") == 5
    assert len(references(session, "g")) == 5


def test_of_two_blocks_of_ids_the_last_one_counts(session: StreamSession) -> None:
    assert session.ask("XDELEX s IDS 1 1-0 IDS 2 2-0 3-0") == [1, 1]
    assert session.ask("XRANGE s - + COUNT 1") == [entry("1-0")]


# --- XACKDEL ---------------------------------------------------------------------------------------------------------


def test_xackdel_answers_for_what_is_pending_in_this_group_only(session: StreamSession) -> None:
    session.ask("XACK s g 1-0")
    assert session.ask("XACKDEL s g IDS 3 1-0 2-0 9-0") == [-1, 1, -1]
    assert session.ask("XLEN s") == 4
    assert references(session, "g") == ["3-0", "4-0", "5-0"]
    assert references(session, "h") == ["1-0", "2-0", "3-0", "4-0", "5-0"]


def test_xackdel_delref_settles_it_for_all_groups(session: StreamSession) -> None:
    assert session.ask("XACKDEL s g DELREF IDS 1 2-0") == [1]
    assert references(session, "g") == references(session, "h") == ["1-0", "3-0", "4-0", "5-0"]


def test_xackdel_acked_deletes_with_the_last_acknowledgement(session: StreamSession) -> None:
    assert session.ask("XACKDEL s g ACKED IDS 1 2-0") == [2]
    assert session.ask("XLEN s") == 5
    assert session.ask("XACKDEL s h ACKED IDS 1 2-0") == [1]
    assert session.ask("XLEN s") == 4


def test_xackdel_of_an_entry_that_is_gone_still_answers_for_the_record(session: StreamSession) -> None:
    session.ask("XDEL s 2-0 3-0")
    assert session.ask("XACKDEL s g IDS 1 2-0") == [1]
    assert session.ask("XACKDEL s g ACKED IDS 1 3-0") == [2]
    assert session.ask("XACKDEL s h ACKED IDS 1 3-0") == [1]


def test_xackdel_takes_many_ids(session: StreamSession) -> None:
    ids = [f"{ms}-0" for ms in range(6, 306)]
    session.fill("s", *ids)
    session.ask("XREADGROUP GROUP g bob STREAMS s >")
    assert session.ask(f"XACKDEL s g IDS 300 {' '.join(ids)}") == [1] * 300
    assert session.ask("XLEN s") == 5


# --- trimming by reference -------------------------------------------------------------------------------------------


def test_trim_acked_walks_past_what_is_referred_to(session: StreamSession) -> None:
    for group in ("g", "h"):
        session.ask(f"XACK s {group} 2-0 4-0")
    assert session.ask("XTRIM s MAXLEN 2 ACKED") == 2
    assert [id for id, _ in session.ask("XRANGE s - +")] == ["1-0", "3-0", "5-0"]


def test_trim_acked_removes_no_more_than_asked(session: StreamSession) -> None:
    for group in ("g", "h"):
        session.ask(f"XACK s {group} 1-0 2-0 3-0 4-0 5-0")
    assert session.ask("XTRIM s ACKED MAXLEN 3") == 2
    assert session.ask("XTRIM s MINID 4-0 ACKED") == 1


def test_trim_delref_takes_references_with_the_entries(session: StreamSession) -> None:
    assert session.ask("XTRIM s MAXLEN 2 DELREF") == 3
    assert references(session, "g") == references(session, "h") == ["4-0", "5-0"]


@pytest.mark.parametrize("policy", ["ACKED", "DELREF"])
def test_an_approximate_trim_by_reference_goes_entry_by_entry(session: StreamSession, policy: str) -> None:
    for group in ("g", "h"):
        session.ask(f"XACK s {group} 1-0 2-0 3-0 4-0 5-0")
    assert session.ask(f"XTRIM s MAXLEN ~ 2 {policy}") == 3


def test_xadd_trims_by_reference(session: StreamSession) -> None:
    assert session.ask("XADD s ACKED MAXLEN 1 6-0 f v") == "6-0"
    assert session.ask("XLEN s") == 6
    assert session.ask("XADD s DELREF MAXLEN 1 7-0 f v") == "7-0"
    assert session.ask("XLEN s") == 1
    assert references(session, "g") == []


def test_a_second_policy_of_xadd_is_taken_for_the_id(session: StreamSession) -> None:
    invalid = "-ERR Invalid stream ID specified as stream command argument"
    assert session.ask("XADD s ACKED DELREF MAXLEN 1 6-0 f v") == invalid
    assert session.ask("XTRIM s MAXLEN 1 ACKED DELREF") == "-ERR syntax error"


def test_trimming_does_not_move_the_greatest_deleted_id(session: StreamSession) -> None:
    session.ask("XTRIM s MAXLEN 2 DELREF")
    assert session.info("XINFO STREAM s")["max-deleted-entry-id"] == "0-0"
    session.ask("XDELEX s IDS 1 4-0")
    assert session.info("XINFO STREAM s")["max-deleted-entry-id"] == "4-0"


# --- who notices -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "noticed"),
    [
        ("XDELEX s DELREF IDS 1 9-0", False),
        ("XDELEX s IDS 1 1-0", True),
        ("XACKDEL s g ACKED IDS 1 1-0", False),
        ("XACKDEL s g IDS 1 1-0", True),
        ("XNACK s g FAIL IDS 1 1-0", False),
        ("XCFGSET s IDMP-MAXSIZE 5", False),
        ("XTRIM s MAXLEN 5", False),
        ("XTRIM s MAXLEN 4", True),
        ("XREADGROUP GROUP g alice CLAIM 0 STREAMS s >", False),
        ("XSETID s 9-0", False),
        ("XGROUP CREATE s new 0", False),
        ("XGROUP CREATE fresh new 0 MKSTREAM", True),
    ],
)
def test_only_changes_to_entries_fail_a_watching_transaction(session: StreamSession, line: str, noticed: bool) -> None:
    session.ask("WATCH s fresh")
    session.connect().run(*line.split(" "))
    session.ask("MULTI")
    session.ask("XLEN s")
    assert (session.ask("EXEC") is None) == noticed
