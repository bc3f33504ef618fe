"""HEADRACE REDRIVE and REDRIVING: dead letters go back, each once, and never faster than they should."""

import pytest

from headrace.engine.applier import Applier
from headrace.engine.rules.dead_letters import Origin
from support.timed_server import NOON, TimedServer, as_map


class Server(TimedServer):
    """An engine with dead letters in the stream q:dead."""

    def die(self, *numbers: int, stream: bytes = b"q", reason: bytes = b"deliveries", key: str = "q:dead") -> None:
        for number in numbers:
            origin = Origin(stream, b"5-%d" % number, b"g", b"ann", 3, NOON - 9, NOON, reason)
            self.run("XADD", key, "*", "n", number, *origin.fields())

    def dead(self) -> list[bytes]:
        return self.stream("q:dead")

    def running(self) -> dict[bytes, bytes] | None:
        reply = self.ask("HEADRACE", "REDRIVING", "q:dead")
        return None if reply is None else as_map(reply)


@pytest.fixture
def server() -> Server:
    return Server()


def texts(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


# --- at once -----------------------------------------------------------------------------------------------------


def test_letters_go_back_without_what_was_added(server: Server) -> None:
    server.die(1, 2)
    server.die(3, stream=b"p")
    server.run("XADD", "q:dead", "*", "n", "no letter")
    assert server.ask("HEADRACE", "REDRIVE", "q:dead") == 3
    assert [fields for _, fields in server.ask("XRANGE", "q", "-", "+")] == [[b"n", b"1"], [b"n", b"2"]]
    assert server.stream("p") == texts(3)
    assert server.dead() == [b"no letter"]


def test_only_the_last_letter_of_a_message_that_died_twice_is_taken_off(server: Server) -> None:
    first = Origin(b"q", b"1-1", b"g", b"ann", 3, 1, 2, b"deliveries").fields()
    second = Origin(b"q:dead", b"7-1", b"h", b"bob", 1, 3, 4, b"fatal").fields()
    server.run("XADD", "graves", "*", "n", "1", *first, *second)
    assert server.ask("HEADRACE", "REDRIVE", "graves") == 1
    assert server.ask("XRANGE", "q:dead", "-", "+")[0][1] == [b"n", b"1", *first]
    assert server.ask("HEADRACE", "REDRIVE", "q:dead") == 1
    assert server.ask("XRANGE", "q", "-", "+")[0][1] == [b"n", b"1"]


def test_some_of_them_and_elsewhere(server: Server) -> None:
    server.die(1, 2, 3)
    server.die(4, 5, reason=b"fatal")
    server.run("XADD", "q:dead", "*", "n", "no letter")
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "COUNT", 1) == 1
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "WHERE", "headrace-reason", "fatal", "COUNT", 1) == 1
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "WHERE", "n", "3") == 1
    assert server.stream() == texts(1, 4, 3)
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "TO", "elsewhere") == 3
    assert server.stream("elsewhere") == [b"2", b"5", b"no letter"]
    assert server.ask("XRANGE", "elsewhere", "-", "+")[0][1] == [b"n", b"2"]
    assert server.ask("HEADRACE", "REDRIVE", "q:dead") == 0
    assert server.ask("HEADRACE", "REDRIVE", "nothing") == 0


def test_letters_that_are_named_go_and_no_others(server: Server) -> None:
    server.die(1, 2, 3, 4)
    server.run("XADD", "q:dead", "*", "n", "no letter")
    ids = [id for id, _ in server.ask("XRANGE", "q:dead", "-", "+")]
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "IDS", 4, ids[2], ids[0], ids[2], "1-1") == 2
    assert server.stream() == texts(1, 3)
    assert server.dead() == [*texts(2, 4), b"no letter"]
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "IDS", 1, ids[4]) == 0
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "IDS", 2, ids[1], ids[4], "TO", "elsewhere") == 2
    assert server.stream("elsewhere") == [b"2", b"no letter"]


def test_effects_are_one_unit_of_commands_that_redis_knows(server: Server) -> None:
    server.die(1, 2)
    ids = [id for id, _ in server.ask("XRANGE", "q:dead", "-", "+")]
    server.take_effects()
    server.ask("HEADRACE", "REDRIVE", "q:dead")
    effects = server.take_effects()
    now = b"%d" % NOON
    assert effects == [
        (0, [b"XADD", b"q", now + b"-0", b"n", b"1"]),
        (0, [b"XADD", b"q", now + b"-1", b"n", b"2"]),
        (0, [b"XDEL", b"q:dead", *ids]),
    ]


def test_a_group_reads_them_again(server: Server) -> None:
    server.run("XGROUP", "CREATE", "q", "g", "$", "MKSTREAM")
    reader = server.waiting_client("XREADGROUP", "GROUP", "g", "bob", "BLOCK", 0, "STREAMS", "q", ">")
    server.die(1)
    server.ask("HEADRACE", "REDRIVE", "q:dead")
    assert b"$1\r\n1\r\n" in reader.reply()


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("q:dead", "TO", "q:dead"), b"-ERR dead letters cannot go to the stream that they are in"),
        (("q:dead", "TO"), b"-ERR syntax error"),
        (("q:dead", "COUNT", 0), b"-ERR value is out of range"),
        (("q:dead", "RATE", 0), b"-ERR value is out of range"),
        (("q:dead", "WHERE", "n"), b"-ERR syntax error"),
        (("q:dead", "NOW", "n"), b"-ERR syntax error"),
        (("q:dead", "IDS", 2, "1-1"), b"-ERR syntax error"),
        (("q:dead", "IDS", 0), b"-ERR value is out of range"),
        (("q:dead", "IDS", 1, "x"), b"-ERR Invalid stream ID"),
        (("q:dead", "IDS", 1, "1-1", "RATE", 1), b"-ERR syntax error"),
        (("q:dead", "COUNT", 1, "IDS", 1, "1-1"), b"-ERR syntax error"),
        (("text",), b"-WRONGTYPE"),
        (("q:dead", "TO", "text"), b"-WRONGTYPE"),
        (("q:dead", "TO", "text", "RATE", 5), b"-WRONGTYPE"),
    ],
)
def test_what_is_refused_changes_nothing(server: Server, words: tuple[str | int, ...], refusal: bytes) -> None:
    server.die(1)
    server.run("SET", "text", "text")
    server.take_effects()
    assert server.run("HEADRACE", "REDRIVE", *words).startswith(refusal)
    assert server.take_effects() == []
    assert server.dead() == texts(1)


def test_where_a_key_holds_no_stream_any_more_nothing_moves(server: Server) -> None:
    server.die(1)
    server.die(2, stream=b"p")
    server.run("SET", "p", "text")
    assert b"'p'" in server.run("HEADRACE", "REDRIVE", "q:dead")
    assert server.dead() == texts(1, 2)
    assert server.stream() == []


def test_permission_for_every_stream_that_gets_letters_is_needed(server: Server) -> None:
    server.die(1)
    server.die(2, stream=b"secret")
    server.run("ACL", "SETUSER", "ann", "on", "nopass", "+@all", "~q", "~q:dead")
    ann = server.connect()
    ann.run("AUTH", "ann", "x")
    assert ann.run("HEADRACE", "REDRIVE", "q:dead").startswith(b"-NOPERM")
    assert ann.run("HEADRACE", "REDRIVE", "q:dead", "TO", "secret").startswith(b"-NOPERM")
    assert ann.run("HEADRACE", "REDRIVE", "q:dead", "WHERE", "n", "1", "TO", "secret").startswith(b"-NOPERM")
    assert ann.run("HEADRACE", "REDRIVE", "q:dead", "RATE", 5).startswith(b"-NOPERM")
    assert server.dead() == texts(1, 2)
    assert ann.run("HEADRACE", "REDRIVE", "q:dead", "WHERE", "headrace-stream", "q") == b":1\r\n"
    assert ann.run("HEADRACE", "REDRIVE", "q:dead", "TO", "q", "RATE", 5) == b"+OK\r\n"


# --- with a rate -------------------------------------------------------------------------------------------------


def test_a_rate_is_never_exceeded_and_what_comes_meanwhile_stays(server: Server) -> None:
    server.die(*range(100))
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "RATE", 10) == b"OK"
    for tenth in range(20):
        server.at(100 * tenth)
        assert len(server.stream()) <= tenth + 1
    assert len(server.stream()) >= 19
    server.die(100)
    shown = server.running()
    assert shown is not None
    assert (shown[b"rate"], int(shown[b"moved"]), shown[b"started"]) == (b"10", len(server.stream()), b"%d" % NOON)
    for second in range(2, 14):
        for tenth in range(10):
            server.at(1000 * second + 100 * tenth)
    assert server.stream() == texts(*range(100))
    assert server.dead() == texts(100)
    assert server.running() is None


@pytest.mark.parametrize("rate", [1, 7, 60, 999, 20_000, 100_000])
def test_any_rate(server: Server, rate: int) -> None:
    server.die(*range(300))
    server.ask("HEADRACE", "REDRIVE", "q:dead", "RATE", rate)
    for ms in range(1, 1001):
        server.at(ms)
    assert min(rate, 300) * 0.9 <= len(server.stream()) <= min(rate + max(1, rate // 50), 300)
    assert len(server.stream()) + len(server.dead()) == 300


def test_it_goes_on_with_all_that_was_asked_for(server: Server) -> None:
    for number in range(60):
        server.die(number, reason=b"fatal" if number % 2 else b"deliveries")
    words = ("TO", "p", "COUNT", 20, "WHERE", "headrace-reason", "fatal", "RATE", 1000)
    server.ask("HEADRACE", "REDRIVE", "q:dead", *words)
    server.at(1)
    other = Server()
    applier = Applier(other.engine, NOON)
    for _, argv in server.take_effects():
        assert applier.run(argv) is None
    assert 0 < len(other.stream("p")) <= 20
    for ms in range(2, 200):
        other.at(ms)
    assert other.stream("p") == texts(*range(1, 41, 2))
    assert len(other.dead()) == 40
    assert other.running() is None


def test_it_can_be_ended_and_there_is_one_of_a_stream(server: Server) -> None:
    server.die(1, 2, 3)
    server.ask("HEADRACE", "REDRIVE", "q:dead", "RATE", 1)
    server.at(1)
    assert b"runs" in server.run("HEADRACE", "REDRIVE", "q:dead")
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "END") == 1
    assert server.ask("HEADRACE", "REDRIVE", "q:dead", "END") == 0
    server.at(60_000)
    assert server.dead() == texts(2, 3)
    server.ask("HEADRACE", "REDRIVE", "q:dead", "RATE", 1)
    server.run("DEL", "headrace:{q:dead}:redrive")
    server.at(120_000)
    assert server.dead() == texts(2, 3)


def test_it_waits_for_a_key_that_holds_no_stream_and_says_so(server: Server) -> None:
    server.die(1)
    server.run("SET", "q", "text")
    server.ask("HEADRACE", "REDRIVE", "q:dead", "RATE", 50)
    for second in range(5):
        server.at(1000 * second)
    shown = server.running()
    assert shown is not None
    assert b"'q'" in shown[b"held"]
    assert len(server.log) == 1
    server.run("DEL", "q")
    server.at(6000)
    assert server.stream() == texts(1)
    assert server.running() is None


def test_a_hash_that_somebody_wrote_moves_nothing(server: Server) -> None:
    server.die(1)
    for state in (["rate", "x"], ["rate", "0"], ["rate", "5", "next", "y"], ["rate", "5", "left", "-1"]):
        server.run("DEL", "headrace:{q:dead}:redrive")
        server.run("HSET", "headrace:{q:dead}:redrive", *state)
        server.at(server.engine.clocks.now_ms - NOON + 5000)
        assert server.dead() == texts(1)
    server.run("DEL", "headrace:{q:dead}:redrive")
    server.run("HSET", "headrace:{q:dead}:redrive", "rate", "5")
    server.at(60_000)
    assert server.stream() == texts(1)
