"""What a master sends becomes commands, wherever its chunks end."""

import pytest

from headrace.formats.aof import encode, hide
from headrace.replication.master_stream import BadStream, MasterStream

SELECT = encode([b"SELECT", b"0"])
ADD = encode([b"XADD", b"s", b"1-1", b"f", b"v\r\n*1\r\n"])
GETACK = encode([b"REPLCONF", b"GETACK", b"*"])
PING = encode([b"ping"])
TRANSACTION = b"".join(map(encode, ([b"multi"], [b"SET", b"a", b"1"], [b"DEL", b"b"], [b"Exec"])))


def given(stream: MasterStream) -> list[list[bytes]]:
    commands = []
    while (argv := stream.next()) is not None:
        commands.append(argv)
    return commands


def test_the_same_commands_come_out_wherever_the_chunks_end() -> None:
    text = SELECT + ADD + PING + TRANSACTION + GETACK + ADD
    whole = MasterStream()
    whole.take(text)
    expected = given(whole)
    assert [argv[0] for argv in expected] == [b"SELECT", b"XADD", b"SET", b"DEL", b"XADD"]
    assert whole.finish(0) == [(True, text, 0)]
    for first in range(len(text)):
        for second in range(first, len(text), 7):
            stream = MasterStream()
            commands, finished = [], b""
            for chunk in (text[:first], text[first:second], text[second:]):
                stream.take(chunk)
                commands += given(stream)
                finished += b"".join(data for _, data, _ in stream.finish(0))
                assert stream.unfinished == len(text[: len(finished) + stream.unfinished]) - len(finished)
            assert commands == expected
            assert finished == text


def test_nothing_of_a_transaction_is_given_out_before_its_end_has_come() -> None:
    stream = MasterStream()
    stream.take(ADD + TRANSACTION[:-1])
    assert [argv[0] for argv in given(stream)] == [b"XADD"]
    assert stream.finish(0) == [(True, ADD, 0)]
    assert stream.unfinished == len(TRANSACTION) - 1
    stream.take(TRANSACTION[-1:])
    assert [argv[0] for argv in given(stream)] == [b"SET", b"DEL"]
    assert stream.finish(0) == [(True, TRANSACTION, 0)]


def test_line_feeds_between_commands_do_not_count() -> None:
    stream = MasterStream()
    for chunk in (b"\n", b"\n\n" + ADD[:-1], ADD[-1:] + b"\n", b"\n" + ADD):
        stream.take(chunk)
    assert len(given(stream)) == 2
    assert stream.finish(0) == [(True, ADD + ADD, 0)]


def test_where_an_acknowledgement_is_asked_for() -> None:
    stream = MasterStream()
    stream.take(ADD + GETACK + PING + GETACK + ADD)
    given(stream)
    assert stream.asked_at == len(ADD + GETACK + PING)
    stream.finish(0)
    assert stream.asked_at == -1


def test_a_command_of_ours_comes_inside_of_a_ping() -> None:
    seen = [b"HEADRACE", b"SEEN", b"key", b"group", b"consumer", b"5", b"-1"]
    stream = MasterStream()
    stream.take(hide(seen) + encode([b"PING", b"hello"]))
    assert given(stream) == [seen]
    stream.take(encode([b"PING", b"#HE:what"]))
    with pytest.raises(BadStream, match="a command in the text of a PING"):
        stream.next()


def test_refused_commands_are_pieces_of_their_own() -> None:
    unknown = encode([b"JSON.SET", b"j", b"$", b"1"])
    stream = MasterStream()
    inside = TRANSACTION.replace(encode([b"DEL", b"b"]), unknown)
    stream.take(ADD + unknown + inside + ADD)
    while (argv := stream.next()) is not None:
        if argv[0] == b"JSON.SET":
            stream.refuse_last(3)
    before = ADD, encode([b"multi"]) + encode([b"SET", b"a", b"1"])
    assert stream.finish(0) == [
        *((True, before[0], 3), (False, unknown, 3)),
        *((True, before[1], 3), (False, unknown, 3)),
        (True, encode([b"Exec"]) + ADD, 0),
    ]


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 400 Bad Request\r\n", b"*0\r\n", b"*1\r\n+OK\r\n", b"*-1\r\n", b"-ERR no\r\n"]
)
def test_what_is_no_command_is_refused_with_what_was_found(text: bytes) -> None:
    stream = MasterStream()
    with pytest.raises(BadStream, match=r"expected .*, found"):
        stream.take(ADD + text)


def test_a_large_argument_is_taken_in_pieces_and_its_memory_given_back() -> None:
    large = encode([b"SET", b"k", bytes(8 << 20)])
    stream = MasterStream()
    for at in range(0, len(large), 65536):
        stream.take(large[at : at + 65536])
    assert stream.next() == [b"SET", b"k", bytes(8 << 20)]
    assert stream.finish(0) == [(True, large, 0)]
    stream.take(ADD)
    assert len(given(stream)) == 1
