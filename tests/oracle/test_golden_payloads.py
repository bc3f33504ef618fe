"""Payloads of every generation: recorded from Redis 8.9, worked out by hand, and encoded here.

The encoder is written from the layout in docs/behaviour.md (7.5) and shares nothing with the code it tests.
"""

import gzip
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.rdb_primitives import RdbReader
from headrace.formats.stream_value import dump_stream, restore_stream
from support.live_server import Server, checking_every_byte
from support.xinfo import describe, fields_of, read_reply

RECORDED = Path(__file__).parent.parent / "golden" / "redis-8.9-payloads.jsonl.gz"
LZF_MARK = 0xC3


@pytest.fixture
def server(redis_server: redis.Redis) -> Iterator[Server]:
    with checking_every_byte(redis_server) as server:
        yield server


def recordings() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def plain(reply: Any) -> Any:
    """Turn a recorded reply into what a client would have: bytes, integers, lists."""
    if isinstance(reply, list):
        assert reply[0] == "*"
        return [plain(each) for each in reply[1:]]
    assert reply[0] in "$:"
    return int(reply[1:]) if reply[0] == ":" else reply[1:].encode("latin-1")


def recorded_info(reply: Any) -> dict[bytes, Any]:
    info = read_reply(plain(reply))
    for group in info[b"groups"]:
        for name in (b"entries-read", b"lag"):
            if group[name] == b"-1":  # a string where a number would stand: the mark of nil
                group[name] = None
    return info


# --- recorded ------------------------------------------------------------------------------------------------------


def test_every_recorded_payload_gives_what_redis_said_of_it() -> None:
    seen = {"groups": 0, "pending": 0, "released": 0, "producers": 0, "emptied producers": 0, "deletions": 0}
    for recording in recordings():
        stream = restore_stream(bytes.fromhex(recording["dump"]))
        theirs = recorded_info(recording["xinfo_full"])
        del theirs[b"radix-tree-nodes"]  # from 8.10 on, and in this 8.9, leaves are not counted
        if has_emptied_producer(recording):
            seen["emptied producers"] += 1
            theirs |= {b"pids-tracked": 0, b"iids-tracked": 0}
        assert [[bytes(entry_id), fields] for entry_id, fields in stream.range()] == plain(recording["xrange"])
        assert fields_of(describe(stream), theirs) == theirs
        seen["deletions"] += theirs[b"max-deleted-entry-id"] != b"0-0"
        seen["producers"] += theirs[b"pids-tracked"] > 0
        seen["groups"] += len(theirs[b"groups"])
        seen["pending"] += sum(group[b"pel-count"] for group in theirs[b"groups"])
        seen["released"] += sum(group[b"nacked-count"] for group in theirs[b"groups"])
    assert seen == {
        "groups": 128,
        "pending": 165,
        "released": 14,
        "producers": 43,
        "emptied producers": 6,
        "deletions": 77,
    }


def test_recorded_payloads_are_written_again_byte_for_byte() -> None:
    """All but those that Redis compressed, or wrote with producers that had nothing left to remember."""
    equal = compressed = emptied = 0
    for recording in recordings():
        payload = bytes.fromhex(recording["dump"])
        again = dump_stream(restore_stream(payload), "8.8")
        if again == payload:
            equal += 1
        elif has_compressed_string(payload):
            compressed += 1
            assert len(again) > len(payload)
        else:
            emptied += 1
            assert has_emptied_producer(recording)
        assert dump_stream(restore_stream(again), "8.8") == again
    assert (equal, compressed, emptied) == (86, 76, 2)


def has_emptied_producer(recording: dict[str, Any]) -> bool:
    """Tell whether the only message, which XINFO still knew, had expired when Redis wrote the payload."""
    info = recorded_info(recording["xinfo_full"])
    counters = length(info[b"iids-added"]) + length(info[b"iids-duplicates"])
    body = bytes.fromhex(recording["dump"])[:-10]
    # One producer, its name of two bytes, none of its messages.
    return re.search(rb"\x01\x02p.\x00" + re.escape(counters) + rb"\Z", body, re.DOTALL) is not None


def has_compressed_string(payload: bytes) -> bool:
    reader = RdbReader(payload, 1)
    for _ in range(2 * reader.length()):  # master ID and listpack of each node
        if payload[reader.position] == LZF_MARK:
            return True
        reader.string()
    return False


# --- worked by hand --------------------------------------------------------------------------------------------------

TYPE_21 = bytes.fromhex(
    "15 01 10 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 1d 1d 00 00 00 0a 00 01 01 00 01 01 01 81 66 02 00"
    "01 02 01 00 01 00 01 81 76 02 04 01 ff 01 01 01 01 01 00 00 01 00 0c 00 47 f3 25 61 af b1 fb b3"
)
TYPE_27 = bytes.fromhex(
    "1b 01 10 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 1d 1d 00 00 00 0a 00 01 01 00 01 01 01 81 66 02 00"
    "01 02 01 00 01 00 01 81 76 02 04 01 ff 01 01 01 01 01 00 00 01 01 01 67 00 00 81 ff ff ff ff ff ff ff ff 00"
    "00 00 40 64 40 64 00 00 00 0e 00 bf cd df d0 52 cc 30 e6"
)


@pytest.mark.parametrize("payload", [TYPE_21, TYPE_27], ids=["type 21", "type 27"])
def test_payloads_that_were_worked_out_by_hand_load(payload: bytes) -> None:
    stream = restore_stream(payload)
    assert list(stream.range()) == [(StreamID(1, 1), [b"f", b"v"])]
    assert (stream.last_id, stream.first_id, stream.max_deleted_id) == (StreamID(1, 1), StreamID(1, 1), StreamID(0))
    assert stream.entries_added == 1
    groups = [(group.name, group.last_delivered_id, group.position) for group in stream.group_list()]
    assert groups == ([(b"g", StreamID(0), None)] if payload is TYPE_27 else [])


def test_the_worked_payload_of_type_27_is_what_we_write() -> None:
    stream = Stream()
    stream.append([b"f", b"v"], StreamID(1, 1))
    stream.create_group(b"g")
    assert dump_stream(stream, "8.8") == TYPE_27


# --- encoded here ----------------------------------------------------------------------------------------------------


def length(value: int) -> bytes:
    if value < 1 << 6:
        return bytes([value])
    if value < 1 << 14:
        return struct.pack(">H", 1 << 14 | value)
    return struct.pack(">BI", 0x80, value) if value < 1 << 32 else struct.pack(">BQ", 0x81, value)


def text(value: bytes) -> bytes:
    return length(len(value)) + value


def id16(ms: int, seq: int = 0) -> bytes:
    return struct.pack(">QQ", ms, seq)


def time_of(ms: int) -> bytes:
    return struct.pack("<q", ms)


def id_lengths(ms: int, seq: int = 0) -> bytes:
    return length(ms) + length(seq)


def listpack(*elements: int | bytes) -> bytes:
    """Small elements only: integers below 128, strings below 64."""
    body = b""
    for each in elements:
        coded = bytes([each]) if isinstance(each, int) else bytes([0x80 | len(each)]) + each
        body += coded + bytes([len(coded)])
    body += b"\xff"
    return struct.pack("<IH", 6 + len(body), len(elements)) + body


def crc64(data: bytes) -> int:
    """Jones's polynomial, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def payload_of(type_byte: int, version: int, *, released: bool = False) -> bytes:
    """Entries 5-0, 6-0 and 7-0 of 70 ever added; four groups, of which one has a pending list."""
    out = bytes([type_byte])
    node = listpack(3, 0, 1, b"f", 0, 2, 0, 0, b"a", 4, 2, 1, 0, b"b", 4, 2, 2, 0, b"c", 4)
    out += length(1) + text(id16(5)) + text(node)
    out += length(3) + id_lengths(7)
    if type_byte >= 19:
        out += id_lengths(5) + id_lengths(4) + length(70)
    groups = ((b"amid", 6, 0), (b"behind", 0, 0), (b"done", 7, 2), (b"first", 5, 0))
    out += length(len(groups))
    for name, last, pending in groups:
        out += text(name) + id_lengths(last)
        if type_byte >= 19:
            out += length(69) if name == b"amid" else length(2**64 - 1)
        out += length(pending)
        if pending:
            out += id16(5) + time_of(1_700_000_000_000) + length(1)
            out += id16(7) + time_of(0 if released else 1_700_000_000_001) + length(200)
        out += length(1 if pending else 0)
        if pending:
            out += text(b"alice") + time_of(1_700_000_000_005)
            if type_byte >= 21:
                out += time_of(1_700_000_000_002)
            out += (length(1) + id16(5)) if released else (length(2) + id16(5) + id16(7))
        if type_byte >= 27:
            out += (length(1) + id16(7)) if released and pending else length(0)
    if type_byte >= 26:
        out += length(200) + length(3) + length(2)
        out += text(b"empty") + length(0)
        out += text(b"p") + length(2) + text(b"m1") + id_lengths(5) + text(b"m2") + id_lengths(6)
        out += length(9) + length(4)
    signed = out + struct.pack("<H", version)
    return signed + struct.pack("<Q", crc64(signed))


GENERATIONS = [(15, 9), (19, 10), (21, 11), (26, 13), (27, 14)]


@pytest.mark.parametrize(("type_byte", "version"), GENERATIONS)
def test_every_generation_loads_by_its_rules(type_byte: int, version: int) -> None:
    stream = restore_stream(payload_of(type_byte, version))
    assert list(stream.range()) == [
        (StreamID(5), [b"f", b"a"]),
        (StreamID(6), [b"f", b"b"]),
        (StreamID(7), [b"f", b"c"]),
    ]
    assert (stream.first_id, stream.last_id) == (StreamID(5), StreamID(7))
    recorded = (StreamID(4), 70) if type_byte >= 19 else (StreamID(0), 3)
    assert (stream.max_deleted_id, stream.entries_added) == recorded

    reads = {group.name: group.position for group in stream.group_list()}
    if type_byte == 15:  # nothing was recorded: what can be told from the IDs
        assert reads == {b"amid": None, b"behind": 0, b"done": 3, b"first": 1}
    else:
        assert reads == {b"amid": 69, b"behind": None, b"done": None, b"first": None}

    done = stream.group(b"done")
    assert done is not None
    times = (1_700_000_000_000, 1_700_000_000_001)
    assert done.pending_records() == [(StreamID(5), b"alice", times[0], 1), (StreamID(7), b"alice", times[1], 200)]
    [alice] = done.consumer_list()
    assert alice.seen_time == 1_700_000_000_005
    assert alice.active_time == (1_700_000_000_002 if type_byte >= 21 else alice.seen_time)
    assert done.released_count == 0

    producers = stream.producers
    if type_byte >= 26:
        assert (producers.duration_s, producers.max_size, producers.recorded, producers.duplicates) == (200, 3, 9, 4)
        assert producers.tables() == [(b"p", [(b"m1", StreamID(5)), (b"m2", StreamID(6))])]
    else:
        assert (producers.duration_s, producers.max_size, producers.recorded, len(producers)) == (100, 100, 0, 0)


def test_the_released_zone_of_type_27_loads() -> None:
    done = restore_stream(payload_of(27, 14, released=True)).group(b"done")
    assert done is not None
    assert done.released_count == 1
    assert done.delivery_order() == [(StreamID(7), None, 0, 200), (StreamID(5), b"alice", 1_700_000_000_000, 1)]
    alice = done.consumer(b"alice")
    assert alice is not None
    assert alice.pending_ids() == [StreamID(5)]


@pytest.mark.parametrize(("type_byte", "version"), GENERATIONS[1:])
def test_generations_that_are_written_come_out_as_they_were_encoded_here(type_byte: int, version: int) -> None:
    payload = payload_of(type_byte, version)
    form = {19: "7.0", 21: "7.2", 26: "8.6", 27: "8.8"}[type_byte]
    stream = restore_stream(payload)
    if type_byte >= 26:  # a producer with nothing left is not kept
        kept = payload[:-8].replace(length(2) + text(b"empty") + length(0), length(1))
        payload = kept + struct.pack("<Q", crc64(kept))
    assert dump_stream(stream, form) == payload


@pytest.mark.parametrize(("type_byte", "version"), [(15, 9), (19, 10)])
def test_old_generations_load_as_they_do_in_redis(server: Server, type_byte: int, version: int) -> None:
    payload = payload_of(type_byte, version)
    server(b"RESTORE", b"s", b"0", payload)
    theirs = read_reply(server(b"XINFO", b"STREAM", b"s", b"FULL", b"COUNT", b"0"))
    ours = fields_of(describe(restore_stream(payload)), theirs)
    for group in (*ours[b"groups"], *theirs[b"groups"]):
        del group[b"lag"]  # whose rules were corrected since: see read_counters.py
    assert ours == theirs
    assert dump_stream(restore_stream(payload), "7.0") == server(b"DUMP", b"s")
