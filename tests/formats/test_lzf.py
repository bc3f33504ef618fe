"""LZF against a model that expands byte by byte, against corrupt input, and in exchange with a live Redis."""

import os
import random
from collections.abc import Iterator

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import lzf
from headrace.formats.dump import open_payload, seal
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import LZF, RdbReader, RdbWriter

CORRUPTIONS = 2_000_000 if os.environ.get("HEADRACE_LONG") else 100_000

# Few letters, repeated pieces: what makes matches of every length and distance.
repetitive = st.lists(
    st.tuples(st.binary(min_size=1, max_size=12) | st.sampled_from([b"a", b"ab", b"abc"]), st.integers(1, 400)),
    max_size=12,
).map(lambda pieces: b"".join(piece * times for piece, times in pieces))


def expand_by_bytes(data: bytes, size: int) -> bytes | None:
    """What `data` expands to, or None where it is not LZF data of `size` bytes."""
    output = bytearray()
    source: Iterator[int] = iter(data)
    try:
        for control in source:
            if control < 32:
                output.extend([next(source) for _ in range(control + 1)])
                continue
            length = control >> 5
            if length == 7:
                length += next(source)
            distance = ((control & 31) << 8 | next(source)) + 1
            if distance > len(output):
                return None
            for _ in range(length + 2):
                output.append(output[-distance])
    except StopIteration:
        return None
    return bytes(output) if len(output) == size else None


def records(count: int) -> bytes:
    chance = random.Random(count)
    return b"".join(b'{"user":%d,"event":"click","at":%d}' % (chance.randrange(99), i) for i in range(count))


@given(st.binary(max_size=300) | repetitive)
def test_what_was_compressed_expands_to_itself(text: bytes) -> None:
    data = lzf.compress(text)
    if data is not None:
        assert lzf.decompress(data, len(text)) == text
        assert expand_by_bytes(data, len(text)) == text


@given(st.binary(max_size=300) | repetitive)
def test_compression_saves_four_bytes_or_is_declined(text: bytes) -> None:
    data = lzf.compress(text)
    assert data is None or len(data) <= len(text) - 4


def test_text_that_does_not_repeat_is_declined() -> None:
    assert lzf.compress(b"") is None
    assert lzf.compress(b"aaaa") is None
    assert lzf.compress(bytes(range(256))) is None


def test_a_saving_of_three_bytes_is_declined_and_of_four_is_taken() -> None:
    # A literal and a copy take 4 bytes up to 9 letters, and 5 from there on.
    assert lzf.compress(b"a" * 7) is None
    assert lzf.compress(b"a" * 8) == b"\x00a\xa0\x00"
    assert lzf.compress(b"a" * 10) == b"\x00a\xe0\x00\x00"


@pytest.mark.parametrize("distance", [1, 2, 255, 256, 257, 8190, 8191, 8192, 8193, 20000])
def test_matches_are_found_up_to_the_window_and_never_beyond(distance: int) -> None:
    # Random bytes cost 1 in 32 more, so the piece must be long enough to win that back.
    chance = random.Random(distance)
    piece = chance.randbytes(min(distance, 600))
    text = piece + chance.randbytes(distance - len(piece)) + piece
    data = lzf.compress(text)
    assert (data is not None) == (len(piece) > 2 and distance <= 8192)
    if data is not None:
        assert lzf.decompress(data, len(text)) == text


@pytest.mark.parametrize("length", [3, 8, 9, 10, 263, 264, 265, 266, 267, 528, 529])
def test_copies_of_every_length_class_round_trip(length: int) -> None:
    piece = random.Random(length).randbytes(length)
    text = piece + b"-" + piece + b"-" * 40
    data = lzf.compress(text)
    assert data is not None
    assert lzf.decompress(data, len(text)) == text


def test_large_buffers_of_every_kind_round_trip() -> None:
    text = records(5000)
    data = lzf.compress(memoryview(text))
    assert data is not None
    assert len(data) < len(text) // 2
    assert lzf.decompress(bytearray(data), len(text)) == text


@pytest.mark.parametrize(
    ("data", "size", "expected"),
    [
        (b"", 1, "0 bytes of LZF data cannot expand to 1"),
        (b"\x00a", -1, "cannot expand to -1"),
        (b"\x00a", 2 * 88 + 1, "2 bytes of LZF data cannot expand to 177"),
        (b"\x00a", 2**64, "cannot expand to 18446744073709551616"),
        (b"\x01a", 2, "byte 0: expected as many literals as announced"),
        (b"\x01ab", 1, "byte 0: expected literals that fit the size"),
        (b"\x00a\xe0", 10, "byte 2: expected the length byte of a copy"),
        (b"\x00a\xe0\x00", 10, "byte 2: expected the distance byte of a copy"),
        (b"\x00a\x20", 4, "byte 2: expected the distance byte of a copy"),
        (b"\x20\x00", 3, "byte 0: expected a copy from inside the output"),
        (b"\x00a\x20\x01", 4, "byte 2: expected a copy from inside the output"),
        (b"\x00a\x20\x00", 3, "byte 2: expected a copy that fits the size"),
        (b"\x00a\x20\x00", 5, "byte 4: expected more data"),
    ],
)
def test_each_fault_is_named_with_its_place(data: bytes, size: int, expected: str) -> None:
    with pytest.raises(CorruptPayload, match=expected):
        lzf.decompress(data, size)


def test_a_declared_size_over_the_limit_is_refused_before_allocating() -> None:
    data = bytes(lzf.LARGEST // 88 + 1)
    with pytest.raises(CorruptPayload, match="cannot expand"):
        lzf.decompress(data, lzf.LARGEST + 1)


@given(st.binary(max_size=60), st.integers(0, 600))
def test_any_bytes_expand_as_in_the_model_or_are_refused(data: bytes, size: int) -> None:
    expected = expand_by_bytes(data, size)
    if expected is None:
        with pytest.raises(CorruptPayload):
            lzf.decompress(data, size)
    else:
        assert lzf.decompress(data, size) == expected


def test_corrupted_data_expands_as_in_the_model_or_is_refused() -> None:
    chance = random.Random(64)
    texts = [records(1), records(4), b"ab" * 90, bytes(300), b"x" * 20 + bytes(range(64)) * 2]
    originals = [(data, len(text)) for text in texts if (data := lzf.compress(text)) is not None]
    for _ in range(CORRUPTIONS):
        data, size = chance.choice(originals)
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(damaged))
            damaged[place] = chance.choice((0x00, 0x1F, 0x20, 0xE0, 0xFF, chance.randrange(256)))
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(damaged)) :]
        if chance.random() < 0.3:
            size = max(0, size + chance.randint(-3, 3))
        try:
            actual = lzf.decompress(damaged, size)
        except CorruptPayload:
            actual = None
        assert actual == expand_by_bytes(bytes(damaged), size), (damaged.hex(), size)


TEXTS = {
    "one letter": b"a" * 1000,
    "records": records(300),
    "zeros past the window": bytes(20000),
    "short": b"to be or not to be, to be or not",
    "far copies": random.Random(7).randbytes(8000) * 2,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_redis_restores_what_we_compressed(redis_server: redis.Redis, text: bytes) -> None:
    writer = RdbWriter(compress=True)
    writer.raw(b"\x00")
    writer.string(text)
    assert len(writer) < len(text)
    redis_server.restore("key", 0, seal(writer.getvalue(), 10))
    assert redis_server.get("key") == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_we_expand_what_redis_compressed(redis_server: redis.Redis, text: bytes) -> None:
    redis_server.config_set("rdbcompression", "yes")
    redis_server.set("key", text)
    payload = redis_server.dump("key")
    assert payload is not None
    body, _ = open_payload(payload)
    assert RdbReader(body, 1).length_or_encoding() == (LZF, True)
    assert RdbReader(body, 1).string() == text
