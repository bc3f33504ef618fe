"""The request parser against a model that sees all bytes at once, and against what a live Redis answers."""

import os
import random
import re
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle, pairwise

import hiredis
import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.protocol.errors import ProtocolError
from headrace.protocol.request import RequestParser
from support.full_memory import full_memory

MUTATIONS = 500_000 if os.environ.get("HEADRACE_LONG") else 20_000
PING = b"*1\r\n$4\r\nPING\r\n"

arguments = st.sampled_from([b"XADD", b"s", b"t", b"*"]) | st.binary(max_size=40)
requests = st.lists(
    st.lists(arguments, min_size=1, max_size=4) | st.lists(arguments, min_size=1, max_size=8), max_size=6
)
quoting = st.text(alphabet="ab'\"\\x4fnrtbag \t\r\v\fé", max_size=30).map(str.encode)


def encode(*arguments: bytes) -> bytes:
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments)


def drain(parser: RequestParser) -> Iterator[list[bytes]]:
    while (request := parser.next()) is not None:
        yield request


def drain_keeping_none(parser: RequestParser) -> Iterator[list[bytes]]:
    """Take requests as a connection does: each is dropped before the next, which may be written over it."""
    while (request := parser.next()) is not None:
        shown = list(request)
        del request
        yield shown


def receive(parser: RequestParser, data: bytes) -> None:
    """Give the data the way a socket does: as much as the parser has room for, until all is in."""
    while data:
        room = parser.space(-1)
        piece = data[: len(room)]
        room[: len(piece)] = piece
        parser.received(len(piece))
        data = data[len(piece) :]


def outcome(pieces: list[bytes]) -> tuple[list[list[bytes]], bytes | None]:
    """The requests that come out, and the error line that ends them if one does."""
    parser = RequestParser()
    found: list[list[bytes]] = []
    try:
        for piece in pieces:
            receive(parser, piece)
            found.extend(drain(parser))
    except ProtocolError as error:
        return found, error.line
    return found, None


# --- the model -----------------------------------------------------------------------------------------------------


def model_words(line: bytes) -> list[bytes] | None:
    """The words on a line, by regular expressions; None where quotes do not match."""
    double = rb'"((?:\\x[0-9a-fA-F]{2}|\\.|[^"\\])*+)"'
    single = rb"'((?:\\'|[^'])*+)'"
    word = re.compile(rb"""([^ \t\r\n"']*)(?:%s|%s)?""" % (double, single), re.DOTALL)
    words = []
    line = line.lstrip(b" \t\r\n\v\f")
    while line:
        match = word.match(line)
        assert match
        bare, in_double, in_single = match.groups()
        quoted = in_double is not None or in_single is not None
        line = line[match.end() :]
        if line[:1] and (line[:1] not in b" \t\r\n\v\f" if quoted else line[:1] in b"\"'"):
            return None
        words.append(bare + unescape(in_double or b"") + (in_single or b"").replace(b"\\'", b"'"))
        line = line.lstrip(b" \t\r\n\v\f")
    return words


def unescape(text: bytes) -> bytes:
    named = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

    def meaning(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)]) if match[1] else named.get(match[2], match[2])

    return re.sub(rb"\\(?:x([0-9a-fA-F]{2})|(.))", meaning, text, flags=re.DOTALL)


def model(data: bytes) -> tuple[list[list[bytes]], bytes | None]:
    """What Redis makes of less than 64 KB from an authenticated client."""
    found: list[list[bytes]] = []

    def number(first: bytes, name: str) -> int | None:
        nonlocal data
        line, cr, rest = data.partition(b"\r")
        if not cr or not rest or b"\0" in line:
            return None
        if first == b"$" and line[:1] != b"$":
            got = data[:1].replace(b"\r", b" ").replace(b"\n", b" ")
            raise ValueError(b"expected '$', got '%s'" % got)
        limit = 2**31 - 1 if first == b"*" else 2**29
        if not re.fullmatch(rb"0|-?[1-9][0-9]{0,18}", line[1:]) or int(line[1:]) > limit:
            raise ValueError(name.encode())
        data = rest[1:]
        return int(line[1:])

    try:
        while data:
            if data[:1] != b"*":
                line, newline, rest = data.partition(b"\n")
                if not newline or b"\0" in line:
                    break
                words = model_words(line.removesuffix(b"\r"))
                if words is None:
                    raise ValueError(b"unbalanced quotes in request")
                data = rest
                found += [words] if words else []
                continue
            count = number(b"*", "invalid multibulk length")
            if count is None:
                break
            arguments: list[bytes] = []
            while len(arguments) < count:
                size = number(b"$", "invalid bulk length")
                if size is not None and size < 0:
                    raise ValueError(b"invalid bulk length")
                if size is None or len(data) < size + 2:
                    return found, None
                arguments.append(data[:size])
                data = data[size + 2 :]
            found += [arguments] if arguments else []
    except ValueError as refusal:
        return found, b"-ERR Protocol error: %s\r\n" % refusal.args[0]
    return found, None


# --- a live Redis --------------------------------------------------------------------------------------------------


def dial(server: redis.Redis) -> socket.socket:
    at = server.connection_pool.connection_kwargs
    return socket.create_connection((at.get("host", "127.0.0.1"), at["port"]), timeout=5)


def conversation(server: redis.Redis, data: bytes) -> bytes:
    """All that Redis sends to a client that says no more than this."""
    with dial(server) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def answer_of(server: redis.Redis, data: bytes) -> object:
    reader = hiredis.Reader()
    with dial(server) as connection:
        connection.sendall(data)
        while (reply := reader.gets()) is False:
            piece = connection.recv(65536)
            assert piece, "the connection ended before a reply"
            reader.feed(piece)
        return reply


# --- requests ------------------------------------------------------------------------------------------------------


@given(requests, st.lists(st.integers(0, 2000)), st.booleans(), st.sampled_from([drain, drain_keeping_none]))
def test_any_arguments_come_out_equal_however_the_bytes_were_cut(
    sent: list[list[bytes]],
    cuts: list[int],
    through_views: bool,
    drained: Callable[[RequestParser], Iterator[list[bytes]]],
) -> None:
    data = b"".join(encode(*request) for request in sent)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parser = RequestParser()
    found: list[list[bytes]] = []
    for start, stop in pairwise(edges):
        if through_views:
            receive(parser, data[start:stop])
        else:
            parser.feed(data[start:stop])
        found.extend(drained(parser))
    assert found == sent
    assert parser.buffered() == 0


def test_a_request_is_written_over_the_last_one_unless_somebody_has_it() -> None:
    parser = RequestParser()
    parser.feed(encode(b"XADD", b"orders", b"*", b"item", b"tea") + encode(b"XADD", b"orders", b"*", b"item", b"cup"))
    kept = parser.next()
    assert parser.next() == [b"XADD", b"orders", b"*", b"item", b"cup"]
    assert kept == [b"XADD", b"orders", b"*", b"item", b"tea"]

    parser.feed(encode(b"XLEN", b"orders") + encode(b"XLEN", b"orders") + encode(b"XLEN", b"others"))
    request = parser.next()
    assert request is not None
    first, command, key = id(request), *request
    del request
    request = parser.next()
    assert request is not None
    assert id(request) == first
    assert request[0] is command
    assert request[1] is key
    del request
    assert parser.next() == [b"XLEN", b"others"]


def test_a_long_request_is_not_kept_for_the_next() -> None:
    parser = RequestParser()
    receive(parser, encode(b"SET", b"key", b"x" * 100_000))
    tracemalloc.start()
    try:
        receive(parser, encode(b"SET", b"key", b"y" * 16_000))
        assert all(len(request) == 3 for request in drain_keeping_none(parser))
        assert tracemalloc.get_traced_memory()[0] < 16_000
    finally:
        tracemalloc.stop()


def test_a_pipeline_may_be_cut_in_two_at_every_byte() -> None:
    data = encode(b"XADD", b"s", b"*", b"f", b"") + b"*0\r\n" + b"PING 'a b'\r\n" + encode(b"\r\n$4\r\n", bytes(300))
    expected = [[b"XADD", b"s", b"*", b"f", b""], [b"PING", b"a b"], [b"\r\n$4\r\n", bytes(300)]]
    for cut in range(len(data) + 1):
        assert outcome([data[:cut], data[cut:]]) == (expected, None)
    assert outcome([data[i : i + 1] for i in range(len(data))]) == (expected, None)


@pytest.mark.parametrize("size", [16383, 16384, 32766, 32767, 32768, 32769, 65534, 65536, 65537, 131072, 200_001])
@pytest.mark.parametrize("step", [1000, 4096, 16384, 1_000_000])
def test_arguments_around_every_internal_size_arrive_intact(size: int, step: int) -> None:
    argument = random.Random(size).randbytes(size)
    data = encode(b"SET", argument, b"after") + encode(argument) + PING
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    assert outcome(pieces) == ([[b"SET", argument, b"after"], [argument], [b"PING"]], None)
    parser = RequestParser()
    for piece in pieces:
        parser.feed(piece)
    assert list(drain(parser)) == [[b"SET", argument, b"after"], [argument], [b"PING"]]


@pytest.mark.parametrize("size", [0, 10, 32_768, 100_000])
def test_an_argument_is_complete_only_with_its_line_end(size: int) -> None:
    data = encode(b"x" * size)
    parser = RequestParser()
    for piece in [data[:-2], b"\r"]:
        receive(parser, piece)
        assert parser.next() is None
    receive(parser, b"\n")
    assert parser.next() == [b"x" * size]


def test_more_arguments_than_a_list_gets_places_for_come_out_in_order() -> None:
    arguments = [b"%d" % i for i in range(5000)]
    assert outcome([encode(*arguments), encode(*arguments[:1025])]) == ([arguments, arguments[:1025]], None)


def test_counts_of_zero_and_less_are_skipped_in_silence(redis_server: redis.Redis) -> None:
    data = b"*0\r\n*-1\r\n*-5\r\n" + PING
    assert outcome([data]) == ([[b"PING"]], None)
    assert answer_of(redis_server, data) == b"PONG"


def test_the_bytes_after_a_length_and_after_an_argument_are_not_looked_at(redis_server: redis.Redis) -> None:
    data = b"*1\rX$4\rYPING??"
    assert outcome([data]) == ([[b"PING"]], None)
    assert answer_of(redis_server, data) == b"PONG"


@given(st.binary(max_size=60), st.lists(st.integers(1, 200), min_size=1))
def test_buffered_counts_what_arrived_and_was_not_handed_out(argument: bytes, steps: list[int]) -> None:
    request = encode(b"SET", argument, b"x" * 40_000)
    parser = RequestParser()
    at = 0
    for step in cycle([step * 100 for step in steps]):
        receive(parser, request[at : at + step])
        at += step
        if at >= len(request):
            break
        assert parser.next() is None
        assert parser.buffered() == at
    assert parser.next() == [b"SET", argument, b"x" * 40_000]
    assert parser.buffered() == 0


# --- inline requests -----------------------------------------------------------------------------------------------


@given(quoting, st.sampled_from([b"\n", b"\r\n"]))
@example(b'"\\', b"\n")
@example(b"'\\'", b"\n")
@example(b"a\v'b'\fc \v\f d", b"\r\n")
def test_inline_words_are_those_of_the_model(line: bytes, newline: bytes) -> None:
    words = model_words((line + newline).removesuffix(b"\n").removesuffix(b"\r"))
    if words is None:
        assert outcome([line + newline]) == ([], b"-ERR Protocol error: unbalanced quotes in request\r\n")
    else:
        assert outcome([line + newline]) == ([words] if words else [], None)


def test_inline_words_are_those_of_redis(redis_server: redis.Redis) -> None:
    chance = random.Random(7)
    alphabet = [b"a", b" ", b"'", b'"', b"\\", b"\\x41", b"\\xfg", b"\\n", b"\\a", b"\t", b"\v", b"\f", b"\r", b"\xff"]
    for _ in range(400):
        line = b'eval "return ARGV" 0 ' + b"".join(chance.choices(alphabet, k=chance.randrange(9))) + b"\r\n"
        found, refusal = outcome([line])
        answer = answer_of(redis_server, line)
        if refusal:
            assert b"-" + str(answer).encode() + b"\r\n" == refusal, line
        else:
            assert answer == found[0][3:], line


def test_empty_lines_are_skipped_and_a_lone_newline_ends_a_line(redis_server: redis.Redis) -> None:
    data = b"\r\n\n \t \r\n\r\r\nPING\n"
    assert outcome([data]) == ([[b"PING"]], None)
    assert answer_of(redis_server, data) == b"PONG"


# --- protocol errors -----------------------------------------------------------------------------------------------

LINE = 64 * 1024

REFUSED = [
    *(b"*%s\r\n" % count for count in [b"", b"x", b"+1", b"01", b"00", b"-0", b" 1", b"1 ", b"2147483648", b"9" * 21]),
    *(b"*1\r\n$%s\r\n" % size for size in [b"", b"x", b"-1", b"+4", b"04", b"4\n", b"536870913", b"9" * 19, b"9" * 20]),
    *(b"*1\r\n%s\r\n" % line for line in [b"", b"\nPING", b"x4", b"\xff", b"4", b":4", b"*1"]),
    *(b"PING %s\n" % words for words in [b'"a', b"'a", b"'a'b", b'"a"b', b'"a\\"', b"a'b'c", b'"\\']),
    b"a" * (LINE + 1),
    b"*" + b"1" * LINE,
    b"*1\r\n$" + b"1" * LINE,
    b"a\0b\r\n" + b"a" * LINE,
    b"*1\0\r\n" + b"a" * LINE,
    b"*1\r\n\0$4\r\n" + b"a" * LINE,
    PING + b"*2\r\n$4\r\nPING\r\n4\r\n" + PING,
]


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: repr(data[:24]))
def test_protocol_errors_are_redis_s_byte_for_byte(redis_server: redis.Redis, data: bytes) -> None:
    found, line = outcome([data])
    assert line is not None
    assert b"+PONG\r\n" * len(found) + line == conversation(redis_server, data)


@pytest.mark.parametrize("data", [b"a" * LINE, b"*" + b"1" * (LINE - 1), b"*1\r\n$" + b"1" * (LINE - 1)])
def test_64_kb_without_a_line_end_are_still_waited_on(data: bytes) -> None:
    assert outcome([data]) == ([], None)


@pytest.fixture
def locked_server(redis_server: redis.Redis) -> Iterator[redis.Redis]:
    redis_server.config_set("requirepass", "secret")
    yield redis_server
    redis_server.execute_command("AUTH", "secret")
    redis_server.config_set("requirepass", "")


@pytest.mark.parametrize("data", [b"*11\r\n", b"*1\r\n$16385\r\n", b"*2147483648\r\n", b"*1\r\n$536870913\r\n"])
def test_before_authentication_the_small_limits_of_redis_hold(locked_server: redis.Redis, data: bytes) -> None:
    parser = RequestParser(trusted=False)
    parser.feed(data)
    with pytest.raises(ProtocolError) as refusal:
        parser.next()
    assert refusal.value.line == conversation(locked_server, data)


def test_the_small_limits_end_with_authentication_even_within_a_pipeline() -> None:
    many = [b"x"] * 11
    parser = RequestParser(trusted=False)
    parser.feed(encode(*many[:10]) + encode(b"a" * 16384) + encode(b"AUTH", b"secret") + encode(*many))
    assert [parser.next() for _ in range(3)] == [many[:10], [b"a" * 16384], [b"AUTH", b"secret"]]
    parser.trusted = True
    assert parser.next() == many


def test_max_bulk_is_the_limit_of_an_argument() -> None:
    parser = RequestParser(max_bulk=1000)
    parser.feed(encode(b"a" * 1000) + encode(b"a" * 1001))
    assert parser.next() == [b"a" * 1000]
    with pytest.raises(ProtocolError, match="invalid bulk length"):
        parser.next()


def test_after_a_protocol_error_all_input_is_refused_and_none_is_kept() -> None:
    parser = RequestParser()
    parser.feed(PING + b"*x\r\n" + PING)
    assert parser.next() == [b"PING"]
    for _ in range(100):
        with pytest.raises(ProtocolError, match="Protocol error: invalid multibulk length"):
            parser.next()
        receive(parser, PING * 1000)
        parser.feed(PING * 1000)
    assert len(parser.space(-1)) <= 16384
    assert parser.buffered() <= 16384


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """A valid pipeline with a few bytes taken out, put in or replaced."""
    chance = random.Random(seed)
    valid = encode(b"XADD", b"s", b"*", b"f", b"v" * 12) + b'PING "a\\x41"\r\n' + encode(b"XLEN", b"s") + b"*0\r\n"
    for _ in range(count):
        data = bytearray(valid)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = bytes(chance.choices(b"*$\r\n\0 '\"\\0159-", k=chance.randrange(3)))
        yield bytes(data)


def test_mutated_pipelines_give_what_the_model_says_in_one_piece_and_in_two() -> None:
    for number, data in enumerate(mutations(11, MUTATIONS)):
        cut = number % len(data)
        assert outcome([data]) == outcome([data[:cut], data[cut:]]) == model(data), data


def test_redis_answers_as_many_requests_of_a_mutated_pipeline_and_refuses_it_alike(redis_server: redis.Redis) -> None:
    for data in mutations(19, 300):
        found, line = outcome([data])
        answer = conversation(redis_server, data)
        if line is not None:
            assert answer.endswith(line), data
        reader = hiredis.Reader()
        reader.feed(answer.removesuffix(line or b""))
        assert all(reader.gets() is not False for _ in found), data
        assert reader.gets() is False, data


def test_random_bytes_never_crash_or_hang() -> None:
    chance = random.Random(13)
    for _ in range(2000):
        outcome([chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(4))])


# --- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"*1\r\n$536870912\r\nabc", b"*2147483647\r\n", b"*2147483647\r\n$536870912\r\nabc"])
def test_what_is_only_declared_takes_no_memory(data: bytes) -> None:
    parser = RequestParser()
    tracemalloc.start()
    try:
        receive(parser, data)
        assert parser.next() is None
        assert len(parser.space(-1)) <= 128 * 1024
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_100_mb_argument_arrives_intact_in_odd_pieces_and_is_held_once() -> None:
    size = 100 * 1024 * 1024 + 7
    pattern = memoryview(random.Random(17).randbytes(1_000_003) * 2)
    steps = cycle([1, 65521, 7, 16384, 99_991, 262_144, 3])
    parser = RequestParser()
    parser.feed(b"*2\r\n$3\r\nSET\r\n$%d\r\n" % size)
    tracemalloc.start()
    try:
        at = 0
        while at < size:
            assert parser.next() is None
            room = parser.space(-1)
            step = min(next(steps), len(room), size - at)
            start = at % 1_000_003
            room[:step] = pattern[start : start + step]
            parser.received(step)
            at += step
        receive(parser, b"\r\n" + PING)
        request = parser.next()
        assert tracemalloc.get_traced_memory()[1] < size + 1_000_000
    finally:
        tracemalloc.stop()
    assert request is not None
    assert parser.next() == [b"PING"]
    value = memoryview(request[1])
    assert len(value) == size
    assert all(value[i : i + 1_000_003] == pattern[: min(1_000_003, size - i)] for i in range(0, size, 1_000_003))


def test_the_buffer_grows_with_need_and_shrinks_after_the_peak() -> None:
    parser = RequestParser()
    assert len(parser.space(-1)) == 16384
    parser.feed(encode(b"x" * 1000) * 1000)
    assert sum(1 for _ in drain(parser)) == 1000
    assert len(parser.space(-1)) == 16384
    receive(parser, encode(b"x" * 30_000))
    assert len(list(drain(parser))) == 1
    assert len(parser.space(-1)) > 16384, "kept for the next request of that size"
    receive(parser, PING)
    assert list(drain(parser)) == [[b"PING"]]
    assert len(parser.space(-1)) == 16384


def test_a_refused_allocation_changes_nothing() -> None:
    data = encode(b"SET", b"k", b"v" * 30_000) + b"PING 'in a line'\r\n"
    parser = RequestParser()
    with full_memory():
        parser.space(-1)
    with full_memory():
        parser.feed(data[:10_000])
    parser.feed(data[:10_000])
    assert parser.next() is None
    with full_memory():
        parser.feed(data[10_000:])
    assert parser.buffered() == 10_000
    parser.feed(data[10_000:])
    assert parser.next() == [b"SET", b"k", b"v" * 30_000]
    with full_memory():
        parser.next()
    assert parser.next() == [b"PING", b"in a line"]


LOSE_AN_ARGUMENT = """
import resource
from headrace.protocol.request import RequestParser

parser = RequestParser()
parser.feed(b"*1\\r\\n$536870912\\r\\n")
piece = bytes(1 << 20)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
for call in [lambda: [(parser.next(), parser.feed(piece)) for _ in range(512)], parser.next]:
    try:
        call()
    except MemoryError:
        print("refused", parser.buffered())
parser.feed(piece)
"""


def test_an_argument_lost_to_a_full_memory_is_refused_for_good() -> None:
    script = [sys.executable, "-c", LOSE_AN_ARGUMENT]
    assert subprocess.run(script, check=True, capture_output=True).stdout == b"refused 0\nrefused 0\n"


def test_received_takes_no_more_than_space_lent() -> None:
    parser = RequestParser()
    with pytest.raises(ValueError, match=r"1 bytes cannot have been received where space\(\) lent room for 0"):
        parser.received(1)
    room = parser.space(-1)
    with pytest.raises(ValueError, match="cannot have been received"):
        parser.received(len(room) + 1)
    with pytest.raises(ValueError, match="cannot have been received"):
        parser.received(-1)
    parser.received(len(room))
    with pytest.raises(ValueError, match="cannot have been received"):
        parser.received(1)


def test_a_dropped_parser_keeps_no_memory() -> None:
    parser = RequestParser()
    parser.trusted = True
    large = b"x" * 8_000_000
    parser.feed(b"*1\r\n$%d\r\n" % (2 * len(large)) + large)
    parser.drop()
    assert parser.buffered() == 0
    assert len(parser.space(1)) < 1_000_000
