"""CLIENT: its answers are Redis's, and it does to connections what Redis does."""

import time
from collections.abc import Iterator

import pytest
import redis
from wire import Wire

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
def wire(headrace_server: redis.Redis) -> Iterator[Wire]:
    with Wire(headrace_server) as connection:
        yield connection


@pytest.fixture
def other(headrace_server: redis.Redis) -> Iterator[Wire]:
    with Wire(headrace_server) as connection:
        yield connection


def line_of(wire: Wire, client_id: int) -> dict[str, str]:
    """The line of CLIENT LIST for a connection."""
    text = wire.ask("CLIENT", "LIST", "ID", str(client_id)).split(b"\r\n")[1].decode()
    return dict(field.split("=", 1) for field in text.split())


def wait_until_blocked(wire: Wire, client_id: int) -> None:
    deadline = time.monotonic() + 5
    while "b" not in line_of(wire, client_id)["flags"]:
        assert time.monotonic() < deadline, "the client does not wait"
        time.sleep(0.001)


@pytest.mark.parametrize("protocol", [2, 3])
def test_answers_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int) -> None:
    with Wire(headrace_server, protocol) as ours, Wire(redis_server, protocol) as theirs:
        for request in SAME_ANSWERS:
            assert ours.ask(*request.split()) == theirs.ask(*request.split()), request


# --- LIST and INFO -------------------------------------------------------------------------------------------------


def test_a_line_has_the_fields_of_redis_in_its_order(wire: Wire, redis_server: redis.Redis) -> None:
    since_7_0 = {"watch", "lib-name", "lib-ver", "io-thread", "tot-net-in", "tot-net-out", "tot-cmds"}
    with Wire(redis_server) as theirs:
        expected, found = (
            [field.split(b"=")[0].decode() for field in connection.ask("CLIENT", "INFO").split(b"\r\n")[1].split()]
            for connection in (theirs, wire)
        )
    assert [name for name in found if name not in since_7_0] == expected
    assert since_7_0 < set(found)


def test_a_line_tells_what_a_connection_is_doing(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    for request in ("CLIENT SETNAME worker", "CLIENT SETINFO LIB-NAME mine", "CLIENT SETINFO lib-ver 1.2", "SELECT 4"):
        assert other.ask(*request.split()) == b"+OK\r\n"
    for request in ("WATCH a b", "MULTI", "XLEN a"):
        other.ask(*request.split())
    line = line_of(wire, client_id)
    expected = {"name": "worker", "lib-name": "mine", "lib-ver": "1.2", "db": "4", "flags": "x", "multi": "1"}
    expected |= {"watch": "2", "cmd": "xlen", "user": "default", "resp": "2", "addr": other.address, "redir": "-1"}
    assert {name: line[name] for name in expected} == expected
    assert int(line["fd"]) > 0
    assert int(line["tot-net-in"]) > 100


def test_a_line_names_the_command_it_was_asked_with(wire: Wire) -> None:
    assert b" cmd=client|info " in wire.ask("CLIENT", "INFO")
    wire.ask("NOSUCH")
    assert b" cmd=NULL " not in wire.ask("CLIENT", "INFO")


def test_list_by_id_gives_the_lines_in_the_order_asked_for(wire: Wire, other: Wire) -> None:
    mine, its = wire.number("CLIENT", "ID"), other.number("CLIENT", "ID")
    lines = wire.ask("CLIENT", "LIST", "ID", str(its), "99999999", str(mine)).split(b"\r\n", 1)[1].splitlines()
    assert [line.split()[0] for line in lines if line] == [b"id=%d" % its, b"id=%d" % mine]


def test_in_resp3_lines_are_verbatim_text(headrace_server: redis.Redis) -> None:
    with Wire(headrace_server, 3) as wire:
        assert wire.ask("CLIENT", "INFO").split(b"\r\n")[1].startswith(b"txt:id=")


def test_setinfo_refuses_what_would_break_a_line(wire: Wire) -> None:
    assert wire.ask("CLIENT", "SETINFO", "LIB-NAME", "a b") == (
        b"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    )
    assert wire.ask("CLIENT", "SETINFO", "NONSENSE", "a") == b"-ERR Unrecognized option 'NONSENSE'\r\n"


def test_tracking_is_refused_clearly(wire: Wire) -> None:
    assert wire.ask("CLIENT", "TRACKING", "ON") == b"-ERR client tracking is not supported by this server\r\n"


# --- KILL ----------------------------------------------------------------------------------------------------------


def test_kill_by_address_may_kill_oneself(wire: Wire) -> None:
    assert wire.ask("CLIENT", "KILL", wire.address) == b"+OK\r\n"
    assert wire.is_closed()


def test_kill_by_id_closes_another_at_once(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    assert wire.ask("CLIENT", "KILL", "ID", str(client_id)) == b":1\r\n"
    assert wire.ask("CLIENT", "LIST", "ID", str(client_id)) == b"$0\r\n\r\n"
    assert other.is_closed()


def test_kill_spares_oneself_unless_told_otherwise(wire: Wire) -> None:
    client_id = str(wire.number("CLIENT", "ID"))
    assert wire.ask("CLIENT", "KILL", "ID", client_id) == b":0\r\n"
    assert wire.ask("CLIENT", "KILL", "ID", client_id, "SKIPME", "no") == b":1\r\n"
    assert wire.is_closed()


def test_kill_wants_every_filter_to_pass(wire: Wire, other: Wire) -> None:
    client_id = str(other.number("CLIENT", "ID"))
    assert wire.ask("CLIENT", "KILL", "ID", client_id, "ADDR", wire.address) == b":0\r\n"
    assert wire.ask("CLIENT", "KILL", "ID", client_id, "TYPE", "replica") == b":0\r\n"
    assert wire.ask("CLIENT", "KILL", "ID", client_id, "MAXAGE", "1000") == b":0\r\n"
    assert (
        wire.ask("CLIENT", "KILL", "ID", client_id, "ADDR", other.address, "TYPE", "NORMAL", "USER", "default")
        == b":1\r\n"
    )
    assert other.is_closed()


def test_kill_by_age_spares_the_young(wire: Wire, other: Wire) -> None:
    assert wire.ask("CLIENT", "KILL", "MAXAGE", "0") == b"-ERR maxage should be greater than 0\r\n"
    assert wire.ask("CLIENT", "KILL", "MAXAGE", "x") == b"-ERR maxage is not an integer or out of range\r\n"
    time.sleep(1.1)
    assert wire.ask("CLIENT", "KILL", "MAXAGE", "1", "ADDR", other.address) == b":1\r\n"
    assert other.is_closed()


def test_kill_ends_a_wait(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    other.send("XREAD", "BLOCK", "0", "STREAMS", "killed", "$")
    wait_until_blocked(wire, client_id)
    assert wire.ask("CLIENT", "KILL", "ID", str(client_id)) == b":1\r\n"
    assert other.is_closed()
    wire.ask("XADD", "killed", "*", "field", "value")


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
def test_unblock_lets_a_reader_go(wire: Wire, other: Wire, request_: str, reason: list[str], answer: bytes) -> None:
    wire.ask("XGROUP", "CREATE", "awaited", "group", "$", "MKSTREAM")
    client_id = other.number("CLIENT", "ID")
    other.send(*request_.split())
    other.send("PING")
    wait_until_blocked(wire, client_id)
    assert wire.ask("CLIENT", "UNBLOCK", str(client_id), *reason) == b":1\r\n"
    assert other.read() == answer
    assert other.read() == b"+PONG\r\n"
    assert wire.ask("CLIENT", "UNBLOCK", str(client_id), *reason) == b":0\r\n"


def test_unblock_does_not_reach_who_is_paused(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    wire.ask("CLIENT", "PAUSE", "10000", "WRITE")
    other.send("XADD", "paused", "*", "field", "value")
    wait_until_blocked(wire, client_id)
    assert wire.ask("CLIENT", "UNBLOCK", str(client_id)) == b":0\r\n"
    assert wire.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert other.read().startswith(b"$")


# --- PAUSE ---------------------------------------------------------------------------------------------------------


def test_pause_write_lets_reads_go_on(wire: Wire, other: Wire) -> None:
    wire.ask("CLIENT", "PAUSE", "300", "WRITE")
    began = time.monotonic()
    assert other.ask("XLEN", "paused").startswith(b":")
    assert time.monotonic() - began < 0.2
    assert other.ask("XADD", "paused", "*", "field", "value").startswith(b"$")
    assert 0.25 < time.monotonic() - began < 0.4


def test_pause_all_holds_everything_back_even_its_own_end(wire: Wire, other: Wire) -> None:
    began = time.monotonic()
    wire.ask("CLIENT", "PAUSE", "300")
    other.send("CLIENT", "UNPAUSE")
    assert wire.ask("PING") == b"+PONG\r\n"
    assert 0.29 < time.monotonic() - began < 0.4
    assert other.read() == b"+OK\r\n"


def test_unpause_runs_what_was_held_back_in_the_order_it_came(headrace_server: redis.Redis, wire: Wire) -> None:
    wire.ask("XADD", "ordered", "0-1", "came", "before")
    with Wire(headrace_server) as early, Wire(headrace_server) as late:
        early_id, late_id = early.number("CLIENT", "ID"), late.number("CLIENT", "ID")
        wire.ask("CLIENT", "PAUSE", "60000", "WRITE")
        late.send("XADD", "ordered", "0-*", "came", "first")
        wait_until_blocked(wire, late_id)
        early.send("XADD", "ordered", "0-*", "came", "second")
        early.send("XADD", "ordered", "0-*", "came", "third")
        wait_until_blocked(wire, early_id)
        wire.ask("CLIENT", "UNPAUSE")
        assert late.read() == b"$3\r\n0-2\r\n"
        assert [early.read(), early.read()] == [b"$3\r\n0-3\r\n", b"$3\r\n0-4\r\n"]


def test_of_two_pauses_the_longer_and_the_stricter_counts(wire: Wire, other: Wire) -> None:
    began = time.monotonic()
    wire.send("CLIENT", "PAUSE", "200", "ALL")
    wire.read()
    other.send("CLIENT", "PAUSE", "10", "WRITE")
    assert other.read() == b"+OK\r\n"
    assert time.monotonic() - began > 0.19
    wire.ask("CLIENT", "PAUSE", "300", "WRITE")
    wire.ask("CLIENT", "PAUSE", "10", "WRITE")
    began = time.monotonic()
    other.ask("XADD", "paused", "*", "field", "value")
    assert time.monotonic() - began > 0.25


def test_pause_write_holds_back_a_transaction_that_writes(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    for request in ("MULTI", "XADD paused * field value"):
        other.ask(*request.split())
    wire.ask("CLIENT", "PAUSE", "60000", "WRITE")
    wire.ask("MULTI")
    wire.ask("XLEN", "paused")
    assert wire.ask("EXEC").startswith(b"*1\r\n:")
    other.send("EXEC")
    wait_until_blocked(wire, client_id)
    assert wire.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert other.read().startswith(b"*1\r\n$")


def test_a_pause_starts_when_the_transaction_that_asks_for_it_is_over(wire: Wire) -> None:
    for request in ("MULTI", "CLIENT PAUSE 200 WRITE", "XADD paused * field value", "CLIENT UNPAUSE"):
        wire.ask(*request.split())
    began = time.monotonic()
    assert wire.ask("EXEC").startswith(b"*3\r\n+OK\r\n$")
    assert time.monotonic() - began < 0.15


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
        with Wire(server) as wire:
            for request in requests.split("; "):
                wire.send(*request.split())
            replies = [wire.read()]
            while replies[-1] != b"$3\r\nend\r\n":
                replies.append(wire.read())
            seen.append(replies)
    assert seen[0] == seen[1]


def test_a_silent_reader_that_is_served_stays_silent(wire: Wire, other: Wire) -> None:
    client_id = other.number("CLIENT", "ID")
    other.send("CLIENT", "REPLY", "SKIP")
    other.send("XREAD", "BLOCK", "0", "STREAMS", "silent", "$")
    other.send("ECHO", "end")
    wait_until_blocked(wire, client_id)
    wire.ask("XADD", "silent", "*", "field", "value")
    assert other.read() == b"$3\r\nend\r\n"


def test_quit_after_reply_off_still_closes(wire: Wire) -> None:
    wire.send("CLIENT", "REPLY", "OFF")
    wire.send("QUIT")
    assert wire.is_closed()
