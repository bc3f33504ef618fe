"""HEADRACE SCHEDULE, SCHEDULED and UNSCHEDULE: what is appended when, and what is never lost."""

import pytest

from headrace.commands.headrace.scheduled_message import ScheduledMessage, decode, encode, next_due
from headrace.engine.applier import Applier
from headrace.engine.blocking.waking import run_due
from headrace.engine.due_keys import TURN, Tickets
from support.effects import Effect
from support.timed_server import NOON, TimedServer, as_map

TIMES = "headrace:{q}:scheduled"
MESSAGES = "headrace:{q}:messages"


class Server(TimedServer):
    """An engine at noon, with messages scheduled for the stream q."""

    def schedule(self, *words: str | bytes | int) -> bytes:
        ticket = self.ask("HEADRACE", "SCHEDULE", "q", *words)
        assert len(ticket) == 18
        return bytes(ticket)

    def scheduled(self, *words: str | int) -> list[dict[bytes, object]]:
        return [as_map(row) for row in self.ask("HEADRACE", "SCHEDULED", "q", *words)]


@pytest.fixture
def server() -> Server:
    return Server()


# --- when --------------------------------------------------------------------------------------------------------


def test_a_message_is_appended_at_its_time_and_not_before(server: Server) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    server.schedule("AT", NOON + 7000, "n", "b")
    server.at(4999)
    assert server.stream() == []
    server.at(5000)
    assert server.stream() == [b"a"]
    server.at(60_000)
    assert server.stream() == [b"a", b"b"]
    assert server.run("EXISTS", TIMES, MESSAGES) == b":0\r\n"


def test_a_time_that_has_passed_and_no_delay_are_due_at_once(server: Server) -> None:
    server.schedule("AT", 0, "n", "a")
    server.schedule("DELAY", 0, "n", "b")
    server.at(0)
    assert server.stream() == [b"a", b"b"]


def test_what_is_due_together_is_in_the_order_of_its_tickets(server: Server) -> None:
    tickets = [server.schedule("AT", NOON + 1000, "n", number) for number in range(3 * TURN + 7)]
    assert tickets == sorted(set(tickets))
    server.schedule("AT", NOON + 999, "n", "first")
    server.at(1000)
    assert server.stream() == [b"first", *(b"%d" % number for number in range(3 * TURN + 7))]


def test_no_turn_appends_more_than_a_slice_and_streams_take_turns(server: Server) -> None:
    for number in range(5 * TURN):
        server.schedule("AT", NOON + 1, "n", number)
    server.run("HEADRACE", "SCHEDULE", "other", "AT", NOON + 2, "n", "x")
    server.set_clock(NOON + 60_000)
    server.engine.tick()
    assert len(server.stream()) == TURN
    run_due(server.engine)
    assert server.stream("other") == [b"x"]
    assert len(server.stream()) < 3 * TURN
    server.at(60_001)
    assert server.stream() == [b"%d" % number for number in range(5 * TURN)]


def test_large_messages_make_slices_shorter(server: Server) -> None:
    for _ in range(10):
        server.schedule("AT", NOON + 1, "n", b"x" * 200_000)
    server.set_clock(NOON + 1000)
    server.engine.tick()
    assert len(server.stream()) == 2
    server.at(1001)
    assert len(server.stream()) == 10


def test_a_reader_that_waits_gets_the_message(server: Server) -> None:
    server.run("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    reader = server.waiting_client("XREAD", "BLOCK", 0, "STREAMS", "q", "$")
    member = server.waiting_client("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "q", ">")
    server.schedule("DELAY", "1s", "n", "a")
    server.at(1000)
    assert b"$1\r\na\r\n" in reader.reply()
    assert b"$1\r\na\r\n" in member.reply()


def test_every_is_counted_from_the_time_at_which_it_was_due(server: Server) -> None:
    server.schedule("AT", NOON + 1000, "EVERY", "10s", "n", "a")
    server.at(3000)
    assert [row[b"due"] for row in server.scheduled()] == [NOON + 11_000]
    server.at(11_000)
    server.at(3_600_500)  # nobody ran for an hour
    assert server.stream() == [b"a"] * 3
    assert [row[b"due"] for row in server.scheduled()] == [NOON + 3_601_000]
    server.at(3_601_000)
    assert server.stream() == [b"a"] * 4


def test_a_first_field_with_the_name_every(server: Server) -> None:
    server.schedule("DELAY", 1, "EVERY", 0, "every", "10s", "n", "a")
    server.at(10)
    assert server.ask("XRANGE", "q", "-", "+")[0][1] == [b"every", b"10s", b"n", b"a"]
    assert server.scheduled() == []


# --- the clock ---------------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_delays_and_repeats_nothing(server: Server) -> None:
    server.schedule("DELAY", "10s", "n", "a")
    server.schedule("DELAY", "1s", "EVERY", "1h", "n", "b")
    server.at(1000)
    server.set_unix_time(NOON - 3_600_000)
    server.engine.tick()
    assert server.stream() == [b"b"]
    server.at(9999)
    assert server.stream() == [b"b"]
    server.at(10_000)
    assert server.stream() == [b"b", b"a"]


def test_a_clock_that_is_set_ahead_makes_messages_due(server: Server) -> None:
    server.schedule("DELAY", "5h", "n", "b")
    server.schedule("DELAY", "3h", "n", "a")
    server.set_unix_time(NOON + 6 * 3_600_000)
    server.engine.tick()
    run_due(server.engine)
    assert server.stream() == [b"a", b"b"]


def test_tickets_rise_whatever_the_clock_does() -> None:
    tickets = Tickets()
    given = [tickets.take(now) for now in (5, 5, 3, 9, 1, *[9] * 20_000)]
    assert given == sorted(set(given))
    assert given[0] == b"0000000000005-0000"


# --- cancelling and looking --------------------------------------------------------------------------------------


def test_scheduled_lists_what_is_due_first_first(server: Server) -> None:
    later = server.schedule("DELAY", "1h", "EVERY", "1d", "dev", "3", "temp", b"\xff:,")
    sooner = server.schedule("DELAY", "1m", "n", "a")
    assert server.scheduled() == [
        {b"ticket": sooner, b"due": NOON + 60_000, b"every": 0, b"fields": [b"n", b"a"], b"held": None},
        {
            b"ticket": later,
            b"due": NOON + 3_600_000,
            b"every": 86_400_000,
            b"fields": [b"dev", b"3", b"temp", b"\xff:,"],
            b"held": None,
        },
    ]
    assert [row[b"ticket"] for row in server.scheduled("COUNT", 1)] == [sooner]
    assert server.scheduled("COUNT", 0) == []


def test_unschedule_cancels_once(server: Server) -> None:
    ticket = server.schedule("DELAY", "1s", "n", "a")
    server.schedule("DELAY", "1s", "n", "b")
    assert server.run("HEADRACE", "UNSCHEDULE", "q", ticket) == b":1\r\n"
    assert server.run("HEADRACE", "UNSCHEDULE", "q", ticket) == b":0\r\n"
    server.at(1000)
    assert server.stream() == [b"b"]
    assert server.run("HEADRACE", "UNSCHEDULE", "q", ticket) == b":0\r\n"
    assert server.run("EXISTS", TIMES, MESSAGES) == b":0\r\n"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("AT", "x", "n", "a"), b"-ERR value is not an integer"),
        (("AT", -1, "n", "a"), b"-ERR value is out of range"),
        (("AT", 2**53, "n", "a"), b"-ERR value is out of range"),
        (("DELAY", "5 minutes", "n", "a"), b"-ERR '5 minutes' is no duration"),
        (("DELAY", "-5", "n", "a"), b"-ERR '-5' is no duration"),
        (("DELAY", "5m", "EVERY", "x", "n", "a"), b"-ERR 'x' is no duration"),
        (("DELAY", "5m", "n", "a", "m"), b"-ERR wrong number of arguments for 'headrace|schedule'"),
        (("DELAY", "5m", "EVERY", "1s"), b"-ERR wrong number of arguments for 'headrace|schedule'"),
        (("SOON", "5m", "n", "a"), b"-ERR syntax error"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_and_changes_nothing(
    server: Server, words: tuple[str | int, ...], refusal: bytes
) -> None:
    assert server.run("HEADRACE", "SCHEDULE", "q", *words).startswith(refusal)
    assert server.take_effects() == []


def test_a_key_that_holds_no_stream_is_refused(server: Server) -> None:
    server.run("SET", "q", "text")
    assert server.run("HEADRACE", "SCHEDULE", "q", "DELAY", 1, "n", "a").startswith(b"-WRONGTYPE")
    server.run("DEL", "q")
    server.run("SET", MESSAGES, "text")
    assert server.run("HEADRACE", "SCHEDULE", "q", "DELAY", 1, "n", "a").startswith(b"-WRONGTYPE")
    assert server.run("EXISTS", TIMES) == b":0\r\n"


def test_permission_for_the_key_is_needed(server: Server) -> None:
    server.run("ACL", "SETUSER", "ann", "on", "nopass", "+@all", "~q", "%R~shown")
    ann = server.connect()
    ann.run("AUTH", "ann", "x")
    assert ann.run("HEADRACE", "SCHEDULE", "q", "DELAY", 1, "n", "a").startswith(b"$18")
    assert ann.run("HEADRACE", "SCHEDULED", "shown") == b"*0\r\n"
    for words in (("SCHEDULE", "shown", "DELAY", 1, "n", "a"), ("UNSCHEDULE", "shown", "x"), ("SCHEDULED", "other")):
        assert ann.run("HEADRACE", *words).startswith(b"-NOPERM"), words
    server.at(1)
    assert server.stream() == [b"a"]


# --- effects -----------------------------------------------------------------------------------------------------


def test_effects_are_commands_of_redis(server: Server) -> None:
    ticket = server.schedule("DELAY", "5s", "n", "a")
    again = server.schedule("DELAY", "5s", "EVERY", "1m", "n", "b")
    due = b"%d" % (NOON + 5000)
    assert server.take_effects() == [
        (0, [b"HSET", MESSAGES.encode(), ticket, b"1:0,1:n,1:a,"]),
        (0, [b"ZADD", TIMES.encode(), due, ticket]),
        (0, [b"HSET", MESSAGES.encode(), again, b"5:60000,1:n,1:b,"]),
        (0, [b"ZADD", TIMES.encode(), due, again]),
    ]
    server.at(5000)
    assert server.take_effects() == [
        (0, [b"XADD", b"q", due + b"-0", b"n", b"a"]),
        (0, [b"XADD", b"q", due + b"-1", b"n", b"b"]),
        (0, [b"ZADD", TIMES.encode(), b"%d" % (NOON + 65_000), again]),
        (0, [b"ZREM", TIMES.encode(), ticket]),
        (0, [b"HDEL", MESSAGES.encode(), ticket]),
    ]
    server.run("HEADRACE", "UNSCHEDULE", "q", again)
    assert server.take_effects() == [
        (0, [b"ZREM", TIMES.encode(), again]),
        (0, [b"HDEL", MESSAGES.encode(), again]),
    ]


def apply(server: Server, effects: list[Effect]) -> None:
    applier = Applier(server.engine, NOON)
    for number, argv in effects:
        for words in ([b"SELECT", b"%d" % number], argv):
            assert applier.run(words) is None


def test_what_was_repeated_from_effects_goes_out_too(server: Server) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    server.schedule("DELAY", "6s", "n", "b")
    other = Server()
    apply(other, server.take_effects())
    server.at(5000)
    apply(other, server.take_effects())
    other.at(60_000)
    assert other.stream() == [b"a", b"b"]


def test_a_replica_leaves_it_to_its_master_until_it_is_promoted(server: Server) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    server.engine.begin_following()
    server.at(3_600_000)
    assert server.stream() == []
    server.engine.end_following()
    server.at(3_600_000)
    assert server.stream() == [b"a"]


def test_nothing_goes_out_while_writes_are_paused_refused_or_data_is_loading(server: Server) -> None:
    server.schedule("DELAY", 1, "n", "a")
    server.run("CLIENT", "PAUSE", 1000, "WRITE")
    server.set_clock(NOON + 500)
    server.engine.tick()
    assert server.stream() == []
    server.at(1500)
    assert server.stream() == [b"a"]
    server.schedule("DELAY", 1, "n", "b")
    server.engine.refusals.writes = b"MISCONF the disk is full"
    server.set_clock(NOON + 2000)
    server.engine.tick()
    server.engine.refusals.writes = None
    server.engine.begin_loading()
    server.set_clock(NOON + 2500)
    server.engine.tick()
    server.engine.end_loading()
    assert server.stream() == [b"a"]
    server.at(3000)
    assert server.stream() == [b"a", b"b"]


# --- keys that somebody changes ----------------------------------------------------------------------------------


def test_times_and_messages_that_somebody_wrote_by_hand_count(server: Server) -> None:
    server.run("HSET", MESSAGES, "t1", encode(ScheduledMessage(0, [b"n", b"a"])), "t2", b"1:0,1:n,1:b,")
    server.run("ZADD", TIMES, NOON + 2000, "t1", f"{NOON + 1000}.5", "t2")
    server.at(1000)
    assert server.stream() == []
    server.at(1001)
    assert server.stream() == [b"b"]
    server.run("ZADD", TIMES, NOON + 1100, "t1")
    server.at(1100)
    assert server.stream() == [b"b", b"a"]


def test_keys_that_are_moved_take_their_messages_along(server: Server) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    for kind in ("scheduled", "messages"):
        server.run("RENAME", f"headrace:{{q}}:{kind}", f"headrace:{{p}}:{kind}")
        server.run("MOVE", f"headrace:{{p}}:{kind}", 1)
    server.run("SWAPDB", 1, 2)
    server.at(5000)
    server.run("SELECT", 2)
    assert server.stream("p") == [b"a"]
    server.run("SELECT", 0)
    assert server.stream() == []


@pytest.mark.parametrize("command", [("FLUSHALL",), ("DEL", TIMES, MESSAGES), ("PEXPIRE", TIMES, 1)])
def test_keys_that_are_removed_take_their_messages_along(server: Server, command: tuple[str, ...]) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    server.run(*command)
    server.at(5000)
    assert server.stream() == []


def test_where_the_key_holds_no_stream_messages_are_held_and_said_once(server: Server) -> None:
    server.schedule("DELAY", "5s", "n", "a")
    server.schedule("DELAY", "1h", "n", "b")
    server.run("SET", "q", "text")
    for ms in range(5000, 10_000, 100):
        server.at(ms)
    assert [row[b"held"] for row in server.scheduled()] == [b"the key holds something that is no stream", None]
    assert len(server.log) == 1
    assert "'q'" in server.log[0]
    server.run("DEL", "q")
    server.schedule("DELAY", 0, "n", "c")
    server.at(11_000)
    assert server.stream() == [b"a", b"c"]
    assert server.scheduled()[0][b"held"] is None
    server.run("SET", "q", "text")
    server.at(3_605_000)
    assert len(server.log) == 2


def test_a_message_that_cannot_be_read_is_kept_and_keeps_no_other_waiting(server: Server) -> None:
    server.run("HSET", MESSAGES, "t1", "nonsense")
    server.run("ZADD", TIMES, NOON, "t1", NOON, "t2")
    ticket = server.schedule("DELAY", 0, "n", "a")
    server.at(5000)
    assert server.stream() == [b"a"]
    assert ticket
    assert server.scheduled() == [
        {b"ticket": b"t1", b"due": None, b"every": 0, b"fields": None, b"held": b"its text cannot be read"}
    ]
    assert server.run("HGET", MESSAGES, "t1") == b"$8\r\nnonsense\r\n"
    assert sorted(sentence.partition("ticket ")[2][:4] for sentence in server.log) == ["'t1'", "'t2'"]
    assert server.run("HEADRACE", "UNSCHEDULE", "q", "t1") == b":1\r\n"


def test_a_stream_without_ids_holds_its_messages(server: Server) -> None:
    server.run("XADD", "q", f"{2**64 - 1}-{2**64 - 1}", "n", "last")
    server.schedule("DELAY", 0, "n", "a")
    server.at(5000)
    assert "exhausted" in str(server.scheduled()[0][b"held"])
    server.run("DEL", "q")
    server.at(7000)
    assert server.stream() == [b"a"]


# --- the text of a message ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"x", b"1:0,", b"1:0,1:a,", b"1:0,1:a,1:b", b"1:0,1:a,2:b,", b"1:0,1:a,1:bb,", b"1:x,1:a,1:b,"),
        *(b"1:0,1:a,1:b,1:c,", b"-1:0,1:a,1:b,", b"99999999999999:0,1:a,1:b,", b"1:0,1:a,9999:b,", b":,:,:,"),
    ],
)
def test_texts_that_are_no_message(text: bytes) -> None:
    assert decode(text) is None


def test_messages_are_read_as_they_were_written() -> None:
    message = ScheduledMessage(5, [b"", b"", b"a:b,", b"\x00\xff\r\n", b"n", b"x" * 100_000])
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [(100, 100, 110), (100, 109, 110), (100, 110, 120), (100.5, 1000, 1010), (float("-inf"), 7, 17), (-5, 7, 17)],
)
def test_when_a_message_is_due_next(due: float, now: int, expected: int) -> None:
    assert next_due(due, 10, now) == expected
