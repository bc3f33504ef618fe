"""CLIENT: its answers are Redis's, and it does to connections what Redis does."""

import time
from collections.abc import Iterator

import pytest
import redis

from support.patience import PATIENCE_S
from support.raw_client import RawClient

SAME_ANSWERS = [
    "CLIENT",
    "CLIENT NOSUCH",
    "CLIENT ID x",
    "CLIENT|ID",
    "CLIENT GETNAME",
    "CLIENT SETNAME",
    "CLIENT SETNAME ü",
    "CLIENT SETNAME worker-1",
    "CLIENT GETNAME",
    "CLIENT KILL",
    "CLIENT KILL 1.2.3.4:5",
    "CLIENT KILL ID",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 99999999",
    "CLIENT KILL TYPE nonsense",
    "CLIENT KILL TYPE master",
    "CLIENT KILL TYPE normal ID",
    "CLIENT KILL USER nobody",
    "CLIENT KILL SKIPME maybe ID 99999999",
    "CLIENT KILL ADDR 1.2.3.4:5 LADDR 1.2.3.4:5 SKIPME no",
    "CLIENT KILL NONSENSE 1",
    "CLIENT LIST NONSENSE",
    "CLIENT LIST TYPE",
    "CLIENT LIST TYPE nonsense",
    "CLIENT LIST TYPE normal x",
    "CLIENT LIST TYPE master",
    "CLIENT LIST TYPE pubsub",
    "CLIENT LIST ID",
    "CLIENT LIST ID x",
    "CLIENT LIST ID 99999998 99999999",
    "CLIENT UNBLOCK",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK 99999999",
    "CLIENT UNBLOCK 99999999 NONSENSE",
    "CLIENT UNBLOCK 99999999 ERROR x",
    "CLIENT PAUSE",
    "CLIENT PAUSE x",
    "CLIENT PAUSE -1",
    "CLIENT PAUSE 1 NONSENSE",
    "CLIENT PAUSE 1 WRITE x",
    "CLIENT PAUSE 1 WRITE",
    "CLIENT UNPAUSE",
    "CLIENT UNPAUSE x",
    "CLIENT NO-EVICT NONSENSE",
    "CLIENT NO-EVICT ON",
    "CLIENT NO-EVICT OFF",
    "CLIENT REPLY",
    "CLIENT REPLY NONSENSE",
    "CLIENT REPLY ON",
    "CLIENT GETREDIR",
    "CLIENT TRACKINGINFO",
    "CLIENT CACHING YES",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING NONSENSE",
]


@pytest.fixture
def wire(headrace_server: redis.Redis) -> Iterator[RawClient]:
    with RawClient.of(headrace_server) as connection:
        yield connection


@pytest.fixture
def other(headrace_server: redis.Redis) -> Iterator[RawClient]:
    with RawClient.of(headrace_server) as connection:
        yield connection


def line_of(wire: RawClient, client_id: int) -> dict[str, str]:
    """The line of CLIENT LIST for a connection."""
    text = wire.run("CLIENT", "LIST", "ID", str(client_id)).split(b"\r\n")[1].decode()
    return dict(field.split("=", 1) for field in text.split())


def wait_until_blocked(wire: RawClient, client_id: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while "b" not in line_of(wire, client_id)["flags"]:
        assert time.monotonic() < deadline, "the client does not wait"
        time.sleep(0.001)


@pytest.mark.parametrize("protocol", [2, 3])
def test_answers_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int) -> None:
    with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
        for request in SAME_ANSWERS:
            assert ours.run(*request.split()) == theirs.run(*request.split()), request


# --- LIST and INFO -------------------------------------------------------------------------------------------------


def test_a_line_has_the_fields_of_redis_in_its_order(wire: RawClient, redis_server: redis.Redis) -> None:
    since_7_0 = {"watch", "lib-name", "lib-ver", "io-thread", "tot-net-in", "tot-net-out", "tot-cmds"}
    with RawClient.of(redis_server) as theirs:
        expected, found = (
            [field.split(b"=")[0].decode() for field in connection.run("CLIENT", "INFO").split(b"\r\n")[1].split()]
            for connection in (theirs, wire)
        )
    assert [name for name in found if name not in since_7_0] == expected
    assert since_7_0 < set(found)


def test_a_line_tells_what_a_connection_is_doing(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    for request in ("CLIENT SETNAME worker", "CLIENT SETINFO LIB-NAME mine", "CLIENT SETINFO lib-ver 1.2", "SELECT 4"):
        assert other.run(*request.split()) == b"+OK\r\n"
    for request in ("WATCH a b", "MULTI", "XLEN a"):
        other.run(*request.split())
    line = line_of(wire, client_id)
    expected = {"name": "worker", "lib-name": "mine", "lib-ver": "1.2", "db": "4", "flags": "x", "multi": "1"}
    expected |= {"watch": "2", "cmd": "xlen", "user": "default", "resp": "2", "addr": other.address, "redir": "-1"}
    assert {name: line[name] for name in expected} == expected
    assert int(line["fd"]) > 0
    assert int(line["tot-net-in"]) > 100


def test_a_line_names_the_command_it_was_asked_with(wire: RawClient) -> None:
    assert b" cmd=client|info " in wire.run("CLIENT", "INFO")
    wire.run("NOSUCH")
    assert b" cmd=NULL " not in wire.run("CLIENT", "INFO")


def test_list_by_id_gives_the_lines_in_the_order_asked_for(wire: RawClient, other: RawClient) -> None:
    mine, its = wire.number("CLIENT", "ID"), other.number("CLIENT", "ID")
    lines = wire.run("CLIENT", "LIST", "ID", str(its), "99999999", str(mine)).split(b"\r\n", 1)[1].splitlines()
    assert [line.split()[0] for line in lines if line] == [b"id=%d" % its, b"id=%d" % mine]


def test_in_resp3_lines_are_verbatim_text(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server, 3) as wire:
        assert wire.run("CLIENT", "INFO").split(b"\r\n")[1].startswith(b"txt:id=")


def test_setinfo_refuses_what_would_break_a_line(wire: RawClient) -> None:
    assert wire.run("CLIENT", "SETINFO", "LIB-NAME", "a b") == (
        b"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    )
    assert wire.run("CLIENT", "SETINFO", "NONSENSE", "a") == b"-ERR Unrecognized option 'NONSENSE'\r\n"


# --- KILL ----------------------------------------------------------------------------------------------------------


def test_kill_by_address_may_kill_oneself(wire: RawClient) -> None:
    assert wire.run("CLIENT", "KILL", wire.address) == b"+OK\r\n"
    assert wire.is_closed()


def test_kill_by_id_closes_another_at_once(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    assert wire.run("CLIENT", "KILL", "ID", str(client_id)) == b":1\r\n"
    assert wire.run("CLIENT", "LIST", "ID", str(client_id)) == b"$0\r\n\r\n"
    assert other.is_closed()


def test_kill_spares_oneself_unless_told_otherwise(wire: RawClient) -> None:
    client_id = str(wire.number("CLIENT", "ID"))
    assert wire.run("CLIENT", "KILL", "ID", client_id) == b":0\r\n"
    assert wire.run("CLIENT", "KILL", "ID", client_id, "SKIPME", "no") == b":1\r\n"
    assert wire.is_closed()


def test_kill_wants_every_filter_to_pass(wire: RawClient, other: RawClient) -> None:
    client_id = str(other.number("CLIENT", "ID"))
    assert wire.run("CLIENT", "KILL", "ID", client_id, "ADDR", wire.address) == b":0\r\n"
    assert wire.run("CLIENT", "KILL", "ID", client_id, "TYPE", "replica") == b":0\r\n"
    assert wire.run("CLIENT", "KILL", "ID", client_id, "MAXAGE", "1000") == b":0\r\n"
    assert (
        wire.run("CLIENT", "KILL", "ID", client_id, "ADDR", other.address, "TYPE", "NORMAL", "USER", "default")
        == b":1\r\n"
    )
    assert other.is_closed()


def test_kill_by_age_spares_the_young(wire: RawClient, other: RawClient) -> None:
    assert wire.run("CLIENT", "KILL", "MAXAGE", "0") == b"-ERR maxage should be greater than 0\r\n"
    assert wire.run("CLIENT", "KILL", "MAXAGE", "x") == b"-ERR maxage is not an integer or out of range\r\n"
    time.sleep(1.1)
    assert wire.run("CLIENT", "KILL", "MAXAGE", "1", "ADDR", other.address) == b":1\r\n"
    assert other.is_closed()


def test_kill_ends_a_wait(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    other.send_words("XREAD", "BLOCK", "0", "STREAMS", "killed", "$")
    wait_until_blocked(wire, client_id)
    assert wire.run("CLIENT", "KILL", "ID", str(client_id)) == b":1\r\n"
    assert other.is_closed()
    wire.run("XADD", "killed", "*", "field", "value")


# --- UNBLOCK -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        "XREAD BLOCK 0 STREAMS awaited $",
        "XREADGROUP GROUP group consumer BLOCK 0 STREAMS awaited >",
        "XREAD BLOCK 100000 STREAMS awaited $",
    ],
)
@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        ([], b"*-1\r\n"),
        (["TIMEOUT"], b"*-1\r\n"),
        (["ERROR"], b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ],
)
def test_unblock_lets_a_reader_go(
    wire: RawClient, other: RawClient, request_: str, reason: list[str], answer: bytes
) -> None:
    wire.run("XGROUP", "CREATE", "awaited", "group", "$", "MKSTREAM")
    client_id = other.number("CLIENT", "ID")
    other.send_words(*request_.split())
    other.send_words("PING")
    wait_until_blocked(wire, client_id)
    assert wire.run("CLIENT", "UNBLOCK", str(client_id), *reason) == b":1\r\n"
    assert other.reply() == answer
    assert other.reply() == b"+PONG\r\n"
    assert wire.run("CLIENT", "UNBLOCK", str(client_id), *reason) == b":0\r\n"


def test_unblock_does_not_reach_who_is_paused(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    wire.run("CLIENT", "PAUSE", "10000", "WRITE")
    other.send_words("XADD", "paused", "*", "field", "value")
    wait_until_blocked(wire, client_id)
    assert wire.run("CLIENT", "UNBLOCK", str(client_id)) == b":0\r\n"
    assert wire.run("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert other.reply().startswith(b"$")


# --- PAUSE ---------------------------------------------------------------------------------------------------------


def test_pause_write_lets_reads_go_on(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    wire.run("CLIENT", "PAUSE", "600000", "WRITE")
    assert other.run("XLEN", "paused").startswith(b":")
    other.send_words("XADD", "paused", "*", "field", "value")
    wait_until_blocked(wire, client_id)
    wire.run("CLIENT", "PAUSE", "1", "WRITE")
    assert other.is_silent(), "the longer pause counts"
    wire.run("CLIENT", "UNPAUSE")
    assert other.reply().startswith(b"$")


def test_a_pause_ends_by_itself(wire: RawClient, other: RawClient) -> None:
    began = time.monotonic()
    wire.run("CLIENT", "PAUSE", "300", "WRITE")
    assert other.run("XADD", "paused", "*", "field", "value").startswith(b"$")
    assert time.monotonic() - began > 0.25


def test_pause_all_holds_everything_back_even_its_own_end(wire: RawClient, other: RawClient) -> None:
    began = time.monotonic()
    wire.run("CLIENT", "PAUSE", "300")
    other.send_words("CLIENT", "UNPAUSE")
    assert wire.run("PING") == b"+PONG\r\n"
    assert time.monotonic() - began > 0.29
    assert other.reply() == b"+OK\r\n"


def test_unpause_runs_what_was_held_back_in_the_order_it_came(headrace_server: redis.Redis, wire: RawClient) -> None:
    wire.run("XADD", "ordered", "0-1", "came", "before")
    with RawClient.of(headrace_server) as early, RawClient.of(headrace_server) as late:
        early_id, late_id = early.number("CLIENT", "ID"), late.number("CLIENT", "ID")
        wire.run("CLIENT", "PAUSE", "60000", "WRITE")
        late.send_words("XADD", "ordered", "0-*", "came", "first")
        wait_until_blocked(wire, late_id)
        early.send_words("XADD", "ordered", "0-*", "came", "second")
        early.send_words("XADD", "ordered", "0-*", "came", "third")
        wait_until_blocked(wire, early_id)
        wire.run("CLIENT", "UNPAUSE")
        assert late.reply() == b"$3\r\n0-2\r\n"
        assert [early.reply(), early.reply()] == [b"$3\r\n0-3\r\n", b"$3\r\n0-4\r\n"]


def test_of_two_pauses_the_longer_and_the_stricter_counts(wire: RawClient, other: RawClient) -> None:
    began = time.monotonic()
    wire.send_words("CLIENT", "PAUSE", "200", "ALL")
    wire.reply()
    other.send_words("CLIENT", "PAUSE", "10", "WRITE")
    assert other.reply() == b"+OK\r\n"
    assert time.monotonic() - began > 0.19
    wire.run("CLIENT", "PAUSE", "300", "WRITE")
    wire.run("CLIENT", "PAUSE", "10", "WRITE")
    began = time.monotonic()
    other.run("XADD", "paused", "*", "field", "value")
    assert time.monotonic() - began > 0.25


def test_pause_write_holds_back_a_transaction_that_writes(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    for request in ("MULTI", "XADD paused * field value"):
        other.run(*request.split())
    wire.run("CLIENT", "PAUSE", "60000", "WRITE")
    wire.run("MULTI")
    wire.run("XLEN", "paused")
    assert wire.run("EXEC").startswith(b"*1\r\n:")
    other.send_words("EXEC")
    wait_until_blocked(wire, client_id)
    assert wire.run("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert other.reply().startswith(b"*1\r\n$")


def test_a_pause_starts_when_the_transaction_that_asks_for_it_is_over(wire: RawClient) -> None:
    for request in ("MULTI", "CLIENT PAUSE 600000 WRITE", "XADD paused * field value", "CLIENT UNPAUSE"):
        wire.run(*request.split())
    assert wire.run("EXEC").startswith(b"*3\r\n+OK\r\n$")


# --- REPLY ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "requests",
    [
        "CLIENT REPLY OFF; PING; NOSUCH; XLEN; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY SKIP; PING; ECHO end",
        "CLIENT REPLY SKIP; NOSUCH; ECHO end",
        "CLIENT REPLY SKIP; CLIENT REPLY SKIP; PING; ECHO end",
        "CLIENT REPLY SKIP; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY OFF; CLIENT REPLY SKIP; PING; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY SKIP; CLIENT REPLY OFF; PING; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY SKIP; MULTI; PING; EXEC; ECHO end",
        "CLIENT REPLY OFF; MULTI; PING; EXEC; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY OFF; CLIENT REPLY NONSENSE; CLIENT REPLY ON; ECHO end",
        "CLIENT REPLY SKIP; RESET; ECHO end",
        "CLIENT REPLY SKIP; XREAD BLOCK 20 STREAMS awaited $; ECHO end",
        "CLIENT REPLY OFF; XREAD BLOCK 20 STREAMS awaited $; CLIENT REPLY ON; ECHO end",
    ],
)
def test_replies_are_left_out_as_redis_leaves_them_out(
    headrace_server: redis.Redis, redis_server: redis.Redis, requests: str
) -> None:
    seen = []
    for server in (headrace_server, redis_server):
        with RawClient.of(server) as wire:
            for request in requests.split("; "):
                wire.send_words(*request.split())
            replies = [wire.reply()]
            while replies[-1] != b"$3\r\nend\r\n":
                replies.append(wire.reply())
            seen.append(replies)
    assert seen[0] == seen[1]


def test_a_silent_reader_that_is_served_stays_silent(wire: RawClient, other: RawClient) -> None:
    client_id = other.number("CLIENT", "ID")
    other.send_words("CLIENT", "REPLY", "SKIP")
    other.send_words("XREAD", "BLOCK", "0", "STREAMS", "silent", "$")
    other.send_words("ECHO", "end")
    wait_until_blocked(wire, client_id)
    wire.run("XADD", "silent", "*", "field", "value")
    assert other.reply() == b"$3\r\nend\r\n"


def test_quit_after_reply_off_still_closes(wire: RawClient) -> None:
    wire.send_words("CLIENT", "REPLY", "OFF")
    wire.send_words("QUIT")
    assert wire.is_closed()
