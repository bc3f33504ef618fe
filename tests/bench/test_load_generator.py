"""The load generator counts replies by their form, whatever they hold and however they arrive."""

import socket
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.measuring.errors import LoadFailed
from headrace.measuring.load import Load
from headrace.measuring.targets import Target, packed
from headrace.measuring.workloads import GROUP, Shape, fill

# --- replies -------------------------------------------------------------------------------------------------------

text = st.binary(max_size=40)
scalar = st.one_of(
    st.integers(-(10**12), 10**12).map(lambda number: b":%d\r\n" % number),
    text.map(lambda body: b"$%d\r\n%b\r\n" % (len(body), body)),
    st.sampled_from(
        [b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"%0\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n", b"+OK\r\n", b"(123\r\n"]
    ),
)
reply = st.recursive(
    scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: b"*%d\r\n" % len(parts) + b"".join(parts)),
        st.lists(inner, max_size=4).map(lambda parts: b"~%d\r\n" % len(parts) + b"".join(parts)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda pairs: b"%%%d\r\n" % len(pairs) + b"".join(part for pair in pairs for part in pair)
        ),
    ),
    max_leaves=12,
)


def _answer(line: socket.socket, request: bytes, chunks: list[bytes]) -> None:
    """Read a request, then send an answer in pieces."""
    missing = len(request)
    while missing:
        missing -= len(line.recv(missing))
    for chunk in chunks:
        line.sendall(chunk)


@settings(max_examples=150)
@given(replies=st.lists(reply, min_size=1, max_size=6), cuts=st.lists(st.integers(0, 400), max_size=12))
def test_every_reply_is_counted_once_however_it_is_cut(replies: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(replies)
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    chunks = [whole[here:there] for here, there in pairwise(places)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = b"x" * len(replies)
        server = threading.Thread(target=_answer, args=(theirs, request, chunks))
        server.start()
        load = Load([ours.fileno()])
        load.run([request], len(replies), 60.0, 1)
        server.join()
        assert load.requests == len(replies)
        assert load.errors == 0


def test_errors_are_counted_and_the_first_is_told() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"+OK\r\n-ERR one\r\n-ERR two\r\n")
        load = Load([ours.fileno()])
        load.run([b"x"], 3, 60.0, 1)
    assert (load.requests, load.errors, load.first_error) == (3, 2, "ERR one")


@pytest.mark.parametrize(("answer", "message"), [(b"HTTP/1.1 200\r\n", "is no reply"), (b"", "closed a connection")])
def test_what_is_no_server_is_told(answer: bytes, message: str) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        with theirs, pytest.raises(LoadFailed, match=message):
            Load([ours.fileno()]).run([b"x"], 1, 60.0, 1)


def test_a_buffer_larger_than_the_socket_takes_is_sent_whole(targets: list[Target]) -> None:
    value = b"v" * 100_000
    for target in targets:
        key = target.key("large")
        with target.connect() as first, target.connect() as second:
            load = Load([first.fileno(), second.fileno()])
            load.run([packed(b"XADD", key, b"*", b"field", value) * 50], 50, 60.0, 4)
        assert load.requests == target.client.xlen(key) == 200
        assert target.client.xrevrange(key, count=1)[0][1] == {b"field": value}


def test_consumers_acknowledge_everything_once(targets: list[Target]) -> None:
    for target in targets:
        key = target.key("consumed")
        fill(target, key, 0, 2_345, Shape(fields=3).words())
        target.client.xgroup_create(key, GROUP, "0")
        names = [b"c%d" % number for number in range(3)]
        reads = [packed(b"XREADGROUP", b"GROUP", GROUP, name, b"COUNT", b"7", b"STREAMS", key, b">") for name in names]
        lines = [target.connect() for _ in names]
        load = Load([line.fileno() for line in lines])
        load.consume(reads, (b"XACK", key, GROUP), 60.0)
        for line in lines:
            line.close()
        assert load.entries == 2_345
        assert target.client.xpending(key, GROUP)["pending"] == 0
        assert target.client.xinfo_groups(key)[0]["entries-read"] == 2_345


def test_consumers_whose_time_is_over_leave_nothing_pending(targets: list[Target]) -> None:
    for target in targets:
        key = target.key("left")
        fill(target, key, 0, 100, Shape().words())
        target.client.xgroup_create(key, GROUP, "0")
        read = packed(b"XREADGROUP", b"GROUP", GROUP, b"c", b"COUNT", b"7", b"STREAMS", key, b">")
        with target.connect() as line:
            load = Load([line.fileno()])
            load.consume([read], (b"XACK", key, GROUP), 0.0)
        assert load.entries == 7
        assert target.client.xpending(key, GROUP)["pending"] == 0


def test_a_percentile_is_what_that_share_did_not_pass(targets: list[Target]) -> None:
    with targets[0].connect() as line:
        load = Load([line.fileno()])
        load.run([packed(b"PING")], 1, 60.0, 100)
    assert load.requests == 100
    assert 0 < load.percentile(0.0) <= load.percentile(0.5) <= load.percentile(0.99) <= load.percentile(1.0)
    assert load.percentile(1.0) < 1e6 * load.seconds * 1.02


def test_readers_that_wait_are_woken_and_timed(targets: list[Target]) -> None:
    for target in targets:
        key = target.key("woken")
        lines = [target.connect() for _ in range(5)]
        load = Load([line.fileno() for line in lines[1:]])
        for _ in range(3):
            load.ask(packed(b"XREAD", b"BLOCK", b"0", b"STREAMS", key, b"$"))
            while target.client.info("clients")["blocked_clients"] < 4:
                time.sleep(0.001)
            load.wake(lines[0].fileno(), packed(b"XADD", key, b"*", b"field", b"value"))
            assert load.requests == 4
        assert 0 < load.percentile(0.5) <= load.percentile(1.0)
        for line in lines:
            line.close()
