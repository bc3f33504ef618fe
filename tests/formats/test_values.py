"""Values of every type travel to redis-server and back, and the forms that only older servers wrote are read."""

from collections import deque

import pytest
import redis

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.formats import dump
from headrace.formats.errors import CorruptPayload
from headrace.formats.values import Value, dump_value, restore_value
from headrace.formats.ziplist import read_ziplist
from headrace.formats.zipmap import read_zipmap
from support.rdb_samples import INTEGERS, SCORES, TEXTS, comparable


def restored(payload: bytes) -> Value:
    return restore_value(dump.open_payload(payload)[0])


def contents(server: redis.Redis, key: str | bytes) -> object:
    """What commands tell of a key, in the shape of `comparable`."""
    kind = server.type(key)
    if kind == b"list":
        return deque(server.lrange(key, 0, -1))
    if kind == b"hash":
        return server.hgetall(key)
    if kind == b"zset":
        return [(member, score.hex()) for member, score in server.zrange(key, 0, -1, withscores=True)]
    return server.smembers(key) if kind == b"set" else server.get(key)


VALUES = [
    *TEXTS,
    deque(TEXTS),
    deque([b"a"] * 70_000),
    MemberSet(b"%d" % n for n in INTEGERS),
    MemberSet([b"a", b"1", b""]),
    MemberSet(TEXTS),
    {b"a": b"1"},
    dict(zip(TEXTS, reversed(TEXTS), strict=True)),
    {b"%d" % n: b"v" for n in range(2000)},
    SortedSet.from_pairs((b"m%d" % at, score) for at, score in enumerate(SCORES)),
    SortedSet.from_pairs((text, at / 7) for at, text in enumerate(TEXTS)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__} of {len(value)}")
def test_redis_and_headrace_restore_what_the_other_dumped(redis_server: redis.Redis, value: Value) -> None:
    redis_server.restore("key", 0, dump_value(value))
    assert contents(redis_server, "key") == comparable(value)
    assert comparable(restored(redis_server.dump("key"))) == comparable(value)


@pytest.mark.parametrize("compression", ["yes", "no"])
def test_every_encoding_that_redis_has_for_a_value_is_read(redis_server: redis.Redis, compression: str) -> None:
    redis_server.config_set("rdbcompression", compression)
    redis_server.rpush("list", *TEXTS)
    redis_server.sadd("intset", *range(-100, 100))
    redis_server.sadd("wide intset", *range(2**40, 2**40 + 5))
    redis_server.sadd("table", *TEXTS)
    redis_server.set("text", b"abc" * 100)
    redis_server.hset("small hash", mapping={b"a": b"1", b"b": b"text", b"c": b"-70000"})
    redis_server.hset("large hash", mapping=dict(zip(TEXTS, TEXTS, strict=True)))
    redis_server.zadd("small scores", {b"m%d" % at: score for at, score in enumerate(SCORES)})
    redis_server.zadd("large scores", {b"m%d" % at: at / 3 for at in range(1000)})
    encodings = set()
    for key in redis_server.scan_iter():
        payload = redis_server.dump(key)
        encodings.add(payload[0])
        assert comparable(restored(payload)) == contents(redis_server, key)
    assert encodings == {0, 2, 4, 5, 11, 16, 17, 18}


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


def zipmap(fields: dict[bytes, bytes]) -> bytes:
    """Pack fields as a server before 2.6 did; some values have bytes to spare."""
    packed = bytes([min(len(fields), 254)])
    for at, (field, value) in enumerate(fields.items()):
        packed += zipmap_size(field) + field + zipmap_size(value) + bytes([at % 3]) + value + b"?" * (at % 3)
    return packed + b"\xff"


def zipmap_size(text: bytes) -> bytes:
    return bytes([len(text)]) if len(text) < 254 else b"\xfe" + len(text).to_bytes(4, "little")


def flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return [text for pair in fields.items() for text in pair]


def text_score(score: float) -> bytes:
    if score in (float("inf"), float("-inf")):
        return b"\xfe" if score > 0 else b"\xff"
    return bytes([len(repr(score))]) + repr(score).encode()


SMALL_FIELDS = {b"a": b"1", b"b": b"x" * 63, b"": b"-5", b"7": b""}
LARGE_FIELDS = dict(zip(TEXTS, reversed(TEXTS), strict=True))
SCORE_TEXTS = {b"m%d" % at: repr(score).encode() for at, score in enumerate(sorted(SCORES))}


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a" + rdb_string(ziplist(TEXTS)),
        b"\x0e\x02" + rdb_string(ziplist(TEXTS)) + rdb_string(ziplist([b"a", b"7"])),
        b"\x01\x03" + b"".join(map(rdb_string, (b"a", b"", b"12"))),
        b"\x09" + rdb_string(zipmap(SMALL_FIELDS)),
        b"\x09" + rdb_string(zipmap(LARGE_FIELDS)),
        b"\x0d" + rdb_string(ziplist(flat(SMALL_FIELDS))),
        b"\x0d" + rdb_string(ziplist(flat(LARGE_FIELDS))),
        b"\x0c" + rdb_string(ziplist(flat(SCORE_TEXTS))),
        b"\x03"
        + bytes([len(SCORES)])
        + b"".join(rdb_string(repr(score).encode()) + text_score(score) for score in SCORES),
    ],
    ids=[
        "one ziplist",
        "a quicklist of ziplists",
        "plain strings",
        "a small zipmap",
        "a large zipmap",
        "a hash in a small ziplist",
        "a hash in a large ziplist",
        "scores in a ziplist",
        "scores as text",
    ],
)
def test_values_of_older_servers_are_read_as_redis_reads_them(redis_server: redis.Redis, body: bytes) -> None:
    payload = dump.seal(body, 9)
    redis_server.restore("key", 0, payload)
    assert comparable(restored(payload)) == contents(redis_server, "key")


def test_a_set_in_a_listpack_is_read() -> None:
    members = bytes.fromhex("0b000000 0200 8161 02 07 01 ff".replace(" ", ""))
    members = len(members).to_bytes(4, "little") + members[4:]
    assert restored(dump.seal(b"\x14" + rdb_string(members), 11)) == MemberSet([b"a", b"7"])


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
        b"\x04\x00",
        b"\x04\x02" + rdb_string(b"twice") * 4,
        b"\x04\x81" + b"\xff" * 8 + rdb_string(b"x") * 4,
        b"\x0d" + rdb_string(ziplist([b"a", b"1", b"b"])),
        b"\x0d" + rdb_string(ziplist([b"a", b"1", b"a", b"2"])),
        b"\x09" + rdb_string(b""),
        b"\x05\x00",
        b"\x05\x02" + (rdb_string(b"twice") + bytes(8)) * 2,
        b"\x05\x01" + rdb_string(b"nan") + bytes.fromhex("000000000000f87f"),
        b"\x03\x01" + rdb_string(b"nan") + b"\xfd",
        b"\x03\x01" + rdb_string(b"m") + b"\x031_0",
        b"\x03\x01" + rdb_string(b"m") + b"\x03abc",
        b"\x03\x01" + rdb_string(b"m") + b"\x09" + b"1",
        b"\x0c" + rdb_string(ziplist([b"m", b"1", b"n"])),
        b"\x16\x01\x00" + rdb_string(b"field") + rdb_string(b"value"),
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


def test_a_damaged_zipmap_gives_texts_or_is_refused() -> None:
    sound = zipmap({b"a": b"1", b"b": b"x" * 70, b"c": b"y" * 300})
    assert read_zipmap(sound) == [b"a", b"1", b"b", b"x" * 70, b"c", b"y" * 300]
    for at in range(len(sound)):
        for byte in range(256):
            try:
                texts = read_zipmap(sound[:at] + bytes([byte]) + sound[at + 1 :])
            except CorruptPayload:
                continue
            assert len(texts) % 2 == 0
    for size in range(len(sound)):
        with pytest.raises(CorruptPayload):
            read_zipmap(sound[:size])
