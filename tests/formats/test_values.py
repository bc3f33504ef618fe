"""Values of every type travel to redis-server and back, and the forms that only older servers wrote are read."""

from collections import deque

import pytest
import redis

from headrace.core.stream import Stream
from headrace.formats import dump
from headrace.formats.errors import CorruptPayload
from headrace.formats.values import Value, dump_value, restore_value
from headrace.formats.ziplist import read_ziplist

INTEGERS = [0, 12, 13, -1, 127, -128, 32767, -32768, 8388607, -8388608, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
# The lengths at which an encoding of a ziplist or a listpack gives way to the next, and a node to one of its own.
LENGTHS = [0, 1, 63, 64, 253, 254, 4095, 4096, 8191, 8192, 8193, 16382, 16383, 16384, 70_000]
TEXTS = [b"x" * length for length in LENGTHS] + [b"%d" % number for number in INTEGERS]


def restored(payload: bytes) -> Value:
    return restore_value(dump.open_payload(payload)[0])


def contents(server: redis.Redis, key: str) -> object:
    kind = server.type(key)
    if kind == b"list":
        return deque(server.lrange(key, 0, -1))
    return server.smembers(key) if kind == b"set" else server.get(key)


@pytest.mark.parametrize(
    "value",
    [*TEXTS, deque(TEXTS), deque([b"a"] * 70_000), {b"%d" % n for n in INTEGERS}, {b"a", b"1", b""}, set(TEXTS)],
    ids=lambda value: f"{type(value).__name__} of {len(value)}",
)
def test_redis_and_headrace_restore_what_the_other_dumped(redis_server: redis.Redis, value: Value) -> None:
    redis_server.restore("key", 0, dump_value(value))
    assert contents(redis_server, "key") == value
    assert restored(redis_server.dump("key")) == value


@pytest.mark.parametrize("compression", ["yes", "no"])
def test_every_encoding_that_redis_has_for_a_value_is_read(redis_server: redis.Redis, compression: str) -> None:
    redis_server.config_set("rdbcompression", compression)
    redis_server.rpush("list", *TEXTS)
    redis_server.sadd("intset", *range(-100, 100))
    redis_server.sadd("wide intset", *range(2**40, 2**40 + 5))
    redis_server.sadd("table", *TEXTS)
    redis_server.set("text", b"abc" * 100)
    for key in redis_server.scan_iter():
        assert restored(redis_server.dump(key)) == contents(redis_server, key)


def ziplist(texts: list[bytes]) -> bytes:
    """Pack texts as a server before 7.0 did."""
    entries: list[bytes] = []
    for text in texts:
        former = len(entries[-1]) if entries else 0
        before = bytes([former]) if former < 254 else b"\xfe" + former.to_bytes(4, "little")
        entries.append(before + ziplist_entry(text))
    packed = b"".join(entries)
    last = 10 + len(packed) - len(entries[-1])
    sizes = (11 + len(packed)).to_bytes(4, "little") + last.to_bytes(4, "little")
    return sizes + len(texts).to_bytes(2, "little") + packed + b"\xff"


def ziplist_entry(text: bytes) -> bytes:
    if text.lstrip(b"-").isdigit():
        number = int(text)
        if 0 <= number <= 12:
            return bytes([0xF1 + number])
        for size, encoding in ((1, 0xFE), (2, 0xC0), (3, 0xF0), (4, 0xD0), (8, 0xE0)):
            if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
                return bytes([encoding]) + number.to_bytes(size, "little", signed=True)
    if len(text) < 64:
        return bytes([len(text)]) + text
    if len(text) < 16384:
        return (0x4000 | len(text)).to_bytes(2, "big") + text
    return b"\x80" + len(text).to_bytes(4, "big") + text


def rdb_string(text: bytes) -> bytes:
    return b"\x80" + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a" + rdb_string(ziplist(TEXTS)),
        b"\x0e\x02" + rdb_string(ziplist(TEXTS)) + rdb_string(ziplist([b"a", b"7"])),
        b"\x01\x03" + b"".join(map(rdb_string, (b"a", b"", b"12"))),
    ],
    ids=["one ziplist", "a quicklist of ziplists", "plain strings"],
)
def test_lists_of_older_servers_are_read_as_redis_reads_them(redis_server: redis.Redis, body: bytes) -> None:
    payload = dump.seal(body, 9)
    redis_server.restore("list", 0, payload)
    assert restored(payload) == deque(redis_server.lrange("list", 0, -1))


def test_a_set_in_a_listpack_is_read() -> None:
    members = bytes.fromhex("0b000000 0200 8161 02 07 01 ff".replace(" ", ""))
    members = len(members).to_bytes(4, "little") + members[4:]
    assert restored(dump.seal(b"\x14" + rdb_string(members), 11)) == {b"a", b"7"}


def test_a_stream_is_dumped_in_the_form_that_was_asked_for() -> None:
    stream = Stream()
    stream.append([b"field", b"value"], b"1-1")
    assert [dump_value(stream, form)[0] for form in ("auto", "7.0", "7.2", "8.6", "8.8")] == [19, 19, 21, 26, 27]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x63\x00",
        b"\x01\x00",
        b"\x02\x00",
        b"\x02\x02" + rdb_string(b"twice") * 2,
        b"\x12\x01\x03" + rdb_string(b"x"),
        b"\x12\x01\x02" + rdb_string(b"x"),
        b"\x0b" + rdb_string(b"\x03\x00\x00\x00\x00\x00\x00\x00"),
        b"\x0b" + rdb_string(b"\x02"),
    ],
)
def test_what_is_no_value_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptPayload):
        restored(dump.seal(body, 10))


def test_a_damaged_ziplist_gives_texts_or_is_refused() -> None:
    sound = ziplist([b"a", b"12", b"300", b"x" * 70, b"y" * 300, b"-5"])
    for at in range(len(sound)):
        for byte in range(256):
            try:
                texts = read_ziplist(sound[:at] + bytes([byte]) + sound[at + 1 :])
            except CorruptPayload:
                continue
            assert all(isinstance(text, bytes) for text in texts)
    for size in range(len(sound)):
        with pytest.raises(CorruptPayload):
            read_ziplist(sound[:size])
