"""Payloads that cross over between Headrace and a live redis-server 7.0.15, where they are known to be delicate.

Whole streams of every shape cross over in `test_histories.py`; here are the widths, forms and losses.
"""

import random
from collections.abc import Iterator

import pytest
import redis

from headrace.core.group import Group, Verdict
from headrace.core.listpack import Listpack
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.rdb_primitives import RdbReader
from headrace.formats.stream_value import FOSTER_CONSUMER, dump_stream, restore_stream
from support.live_server import Server, checking_every_byte
from support.xinfo import describe, fields_of, read_reply

KEY = b"s"

# A string of 4096 bytes and more is stored with 5 bytes before it. At these sizes of both together, and only there,
# the length behind it is one byte wider before Redis 8.8.
AMBIGUOUS = (16383, 2097151)
EDGES = [size - 5 + delta for size in AMBIGUOUS for delta in (-1, 0, 1)]

NEWER_FORMS = ("7.2", "8.6", "8.8")


@pytest.fixture
def server(redis_server: redis.Redis) -> Iterator[Server]:
    with checking_every_byte(redis_server) as server:
        yield server


def entries_of(stream: Stream) -> list[list[object]]:
    return [[bytes(entry_id), fields] for entry_id, fields in stream.range()]


def edge_entries(size: int) -> list[list[bytes]]:
    """Entries with an element of this size in every role: name of a master, value, own name; first, last, amid."""
    long = b"x" * size
    return [
        [b"f", long],
        [b"f", b"short"],
        [b"other", long, b"more", b"1"],
        [long, b"named"],
        [b"f", b"last"],
        [b"f", long],
    ]


@pytest.mark.parametrize("max_bytes", [0, 4096])
@pytest.mark.parametrize("size", EDGES)
def test_elements_at_the_edge_of_a_backlen_come_from_redis(server: Server, size: int, max_bytes: int) -> None:
    server(b"CONFIG", b"SET", b"stream-node-max-bytes", b"%d" % max_bytes)
    for ms, fields in enumerate(edge_entries(size), 1):
        server(b"XADD", KEY, b"%d-0" % ms, *fields)
    payload = server(b"DUMP", KEY)
    restored = restore_stream(payload)
    assert entries_of(restored) == [[b"%d-0" % ms, fields] for ms, fields in enumerate(edge_entries(size), 1)]
    assert dump_stream(restored, "7.0") == payload
    # The newest form has one byte less for each such element.
    newest = dump_stream(restored, "8.8")
    saved = bytes_of_nodes(payload) - bytes_of_nodes(newest)
    assert saved == (count_elements(restored, size) if size + 5 in AMBIGUOUS else 0)
    assert entries_of(restore_stream(newest)) == entries_of(restored)


def bytes_of_nodes(payload: bytes) -> int:
    reader = RdbReader(payload, 1)
    return sum(len(reader.string()) for _ in range(2 * reader.length()))


def count_elements(stream: Stream, size: int) -> int:
    elements = [element for _, listpack in stream.nodes() for element in Listpack.from_bytes(listpack)]
    return sum(isinstance(element, bytes) and len(element) == size for element in elements)


@pytest.mark.parametrize("size", EDGES)
def test_elements_at_the_edge_of_a_backlen_go_to_redis(server: Server, size: int) -> None:
    stream = Stream()
    for ms, fields in enumerate(edge_entries(size), 1):
        stream.append(fields, StreamID(ms))
    sent = dump_stream(stream, "7.0")
    server(b"RESTORE", KEY, b"0", sent)
    assert server(b"XRANGE", KEY, b"-", b"+") == entries_of(stream)
    assert server(b"XREVRANGE", KEY, b"+", b"-") == entries_of(stream)[::-1]
    assert server(b"XDEL", KEY, b"3-0", b"6-0") == 2, "redis finds its way over the elements"
    assert stream.delete([b"3-0", b"6-0"]) == 2
    assert server(b"DUMP", KEY) == dump_stream(stream, "7.0")


def test_compressed_payloads_load_as_what_they_were(server: Server, redis_server: redis.Redis) -> None:
    chance = random.Random(7)
    for ms in range(1, 400):
        noise = chance.randbytes(chance.choice((0, 5, 30)))
        server(b"XADD", KEY, b"%d-0" % ms, b"name", b"again and " * chance.randrange(9) + noise, b"n", b"%d" % ms)
    server(b"XGROUP", b"CREATE", KEY, b"a group with a long, long, long, long name" * 3, b"5-0")
    server(b"XDEL", KEY, b"17-0")
    plain = server(b"DUMP", KEY)
    redis_server.config_set("rdbcompression", "yes")
    try:
        packed = server(b"DUMP", KEY)
    finally:
        redis_server.config_set("rdbcompression", "no")
    assert len(packed) < len(plain) * 2 // 3
    assert dump_stream(restore_stream(packed), "7.0") == plain
    assert entries_of(restore_stream(packed)) == server(b"XRANGE", KEY, b"-", b"+")


def busy_stream() -> Stream:
    """A stream with something in every part of the layout."""
    stream = Stream()
    for ms in range(1, 301):
        stream.append([b"f", b"%d" % ms], StreamID(ms))
    stream.delete([b"7-0", b"250-0"])
    group = stream.create_group(b"g")
    group.read_new(b"alice", 1_000, 20)
    group.read_new(b"bob", 2_000, 20)
    group.read_new(b"carol", 3_000, 5, noack=True)
    group.create_consumer(b"idle", 4_000)
    stream.create_group(b"untouched", b"12-0")
    stream.producers.record(b"producer", b"message 1", StreamID(1))
    stream.producers.record(b"producer", b"message 2", StreamID(2))
    stream.producers.duplicates = 3
    return stream


def group_of(stream: Stream) -> Group:
    group = stream.group(b"g")
    assert group is not None
    return group


@pytest.mark.parametrize("form", NEWER_FORMS)
def test_newer_forms_are_refused_by_7_0_and_come_back_here(server: Server, form: str) -> None:
    stream = busy_stream()
    if form == "8.8":
        group_of(stream).release_ids([b"3-0", b"1-0"], Verdict.FAIL)
    written = dump_stream(stream, form)
    with pytest.raises(redis.ResponseError, match="DUMP payload version or checksum are wrong"):
        server(b"RESTORE", KEY, b"0", written)
    reloaded = restore_stream(written)
    assert dump_stream(reloaded, form) == written
    ours, theirs = describe(stream), describe(reloaded)
    if form == "7.2":  # which knows no producers
        for name in (b"pids-tracked", b"iids-tracked", b"iids-added", b"iids-duplicates"):
            ours[name] = theirs[name]
    assert theirs == ours


@pytest.mark.parametrize("form", ["7.0", "7.2", "8.6"])
@pytest.mark.parametrize("name_is_taken", [False, True])
def test_no_released_record_is_lost_in_forms_that_know_none(server: Server, form: str, name_is_taken: bool) -> None:
    stream = busy_stream()
    group = group_of(stream)
    if name_is_taken:
        group.claim(FOSTER_CONSUMER, [b"2-0", b"30-0"], 0, 5_000)
    released = [b"25-0", b"1-0", b"9-0", b"40-0"]
    assert group.release_ids(released, Verdict.SILENT, deliveries=6) == 4
    written = dump_stream(stream, form)
    reloaded = group_of(restore_stream(written))
    kept = [(entry_id, deliveries) for entry_id, _, _, deliveries in group.pending_records()]
    assert [(entry_id, deliveries) for entry_id, _, _, deliveries in reloaded.pending_records()] == kept
    foster = reloaded.consumer(FOSTER_CONSUMER)
    assert foster is not None
    fostered = {bytes(entry_id) for entry_id in foster.pending_ids()}
    assert fostered == {*released, *([b"2-0", b"30-0"] if name_is_taken else [])}
    assert reloaded.released_count == 0

    if form == "7.0":
        server(b"RESTORE", KEY, b"0", written)
        assert server(b"DUMP", KEY) == written
        records = server(b"XPENDING", KEY, b"g", b"-", b"+", b"1000")
        assert [(StreamID.parse(entry_id), deliveries) for entry_id, _, _, deliveries in records] == kept
        assert {entry_id for entry_id, owner, _, _ in records if owner == FOSTER_CONSUMER} == fostered


def test_the_automatic_form_of_a_plain_stream_is_one_that_7_0_reads(server: Server) -> None:
    stream = Stream()
    for ms in range(1, 301):
        stream.append([b"f", b"v"], StreamID(ms))
    stream.create_group(b"g", b"100-0", 100)
    server(b"RESTORE", KEY, b"0", dump_stream(stream))
    theirs = read_reply(server(b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0"))
    assert fields_of(describe(stream), theirs) == theirs
