"""Replies in pieces of any size are the replies in one piece, and bytes that are none are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.errors import ProtocolError, Refused
from headrace.protocol.reply_parser import ReplyParser, pack_requests
from headrace.protocol.request import RequestParser

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=5), inner, max_size=3),
    max_leaves=20,
)


def written(value: Any) -> bytes:
    match value:
        case None:
            return b"_\r\n"
        case bool():
            return b"#t\r\n" if value else b"#f\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case list():
            return b"*%d\r\n" % len(value) + b"".join(map(written, value))
        case _:
            pairs = (written(name) + written(item) for name, item in value.items())
            return b"%%%d\r\n" % len(value) + b"".join(pairs)


@given(st.lists(values, min_size=1, max_size=5), st.integers(1, 50))
def test_pieces_of_any_size_make_the_same_replies(sent: list[Any], size: int) -> None:
    push = b">2\r\n+pubsub\r\n*1\r\n:1\r\n"
    data = push + push.join(map(written, sent)) + push
    parser, replies = ReplyParser(), list[Any]()
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])
        parser.take(replies, len(sent))
    assert replies == sent


def test_every_kind_of_reply_is_read() -> None:
    parser, replies = ReplyParser(), list[Any]()
    parser.feed(b"+OK\r\n$-1\r\n*-1\r\n*0\r\n,1.5\r\n=5\r\ntxt:a\r\n~1\r\n:1\r\n-ERR no\r\n!8\r\nBAD\r\n so\r\n:9")
    assert not parser.take(replies, 10)
    assert replies[:7] == [b"OK", None, None, [], 1.5, b"a", [1]]
    assert [(type(each), each.code, str(each)) for each in replies[7:]] == [
        (Refused, "ERR", "ERR no"),
        (Refused, "BAD\r\n", "BAD\r\n so"),
    ]
    parser.feed(b"9\r\n")
    assert parser.take(replies, 10)
    assert replies[9] == 99


@pytest.mark.parametrize("data", [b"hello\r\n", b"$99999999999999\r\n", b"*1\r\n" * 65, b"\x00\r\n"])
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    parser = ReplyParser()
    parser.feed(data)
    with pytest.raises(ProtocolError):
        parser.take([], 1)


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=5), min_size=1, max_size=3))
def test_requests_are_written_as_servers_read_them(requests: list[list[bytes]]) -> None:
    parser = RequestParser()
    parser.feed(pack_requests(requests))
    assert [parser.next() for _ in requests] == requests
