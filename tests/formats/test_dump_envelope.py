"""The DUMP envelope: payloads of real servers open, and every damaged one is refused."""

import gzip
import json
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.dump import open_payload, seal
from headrace.formats.errors import CorruptPayload, UnsupportedVersion, WrongChecksum

GOLDEN = Path(__file__).parent.parent / "golden" / "redis-8.9-payloads.jsonl.gz"

# One entry, `1-1 f v`: as type 21 of RDB 12, and as type 27 of RDB 14 with a group `g`.
NODE = """
10 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 1d 1d 00 00 00 0a 00 01 01 00 01 01 01 81 66 02 00
01 02 01 00 01 00 01 81 76 02 04 01 ff
"""
TYPE_21 = bytes.fromhex(f"15 01 {NODE} 01 01 01 01 01 00 00 01 00 0c 00 47 f3 25 61 af b1 fb b3")
TYPE_27 = bytes.fromhex(
    f"1b 01 {NODE} 01 01 01 01 01 00 00 01 01 01 67 00 00 81 ff ff ff ff ff ff ff ff 00"
    "00 00 40 64 40 64 00 00 00 0e 00 bf cd df d0 52 cc 30 e6"
)


@pytest.mark.parametrize(("payload", "kind", "version"), [(TYPE_21, 21, 12), (TYPE_27, 27, 14)])
def test_the_worked_payloads_open_and_seal_to_the_same_bytes(payload: bytes, kind: int, version: int) -> None:
    body, found = open_payload(payload)
    assert (body[0], found) == (kind, version)
    assert bytes(body) == payload[:-10]
    assert seal(bytes(body), version) == payload


def test_every_payload_recorded_from_redis_opens_and_seals_to_the_same_bytes() -> None:
    with gzip.open(GOLDEN, "rt") as lines:
        recorded = [json.loads(line) for line in lines]
    assert len(recorded) == 164
    for record in recorded:
        payload = bytes.fromhex(record["dump"])
        body, version = open_payload(payload)
        assert (body[0], version) == (record["type"], record["rdb_version"])
        assert seal(bytes(body), version) == payload


@given(st.binary(max_size=200), st.integers(0, 15))
def test_what_was_sealed_opens(body: bytes, version: int) -> None:
    opened, found = open_payload(seal(body, version))
    assert (bytes(opened), found) == (body, version)


def test_one_flipped_bit_anywhere_is_refused() -> None:
    for bit in range(len(TYPE_27) * 8):
        damaged = bytearray(TYPE_27)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((WrongChecksum, UnsupportedVersion)):
            open_payload(bytes(damaged))


def test_every_shorter_payload_is_refused() -> None:
    for size in range(len(TYPE_27)):
        with pytest.raises((WrongChecksum, UnsupportedVersion)):
            open_payload(TYPE_27[:size])


def test_a_checksum_of_zero_is_not_checked() -> None:
    body, version = open_payload(TYPE_27[:-8] + bytes(8))
    assert (bytes(body), version) == (TYPE_27[:-10], 14)


def test_a_newer_version_is_refused_whatever_its_checksum() -> None:
    with pytest.raises(UnsupportedVersion, match="offset 3: expected an RDB version up to 15, found 16"):
        open_payload(seal(b"\x00\x01a", 16))
    with pytest.raises(UnsupportedVersion, match="up to 13, found 14"):
        open_payload(TYPE_27[:-8] + bytes(8), newest=13)
    assert open_payload(seal(b"\x00\x01a", 81), newest=81)[1] == 81


def test_a_caller_that_does_not_care_why_catches_one_error() -> None:
    for payload in (b"", b"short", seal(b"\x00\x01a", 16), TYPE_21[:-1] + b"?"):
        with pytest.raises(CorruptPayload):
            open_payload(payload)


def test_the_payloads_of_a_live_redis_open(redis_server: redis.Redis) -> None:
    redis_server.xadd("stream", {"f": "v"}, id="1-1")
    payload = redis_server.dump("stream")
    assert payload is not None
    body, version = open_payload(payload)
    assert (body[0], version) == (19, 10)
    assert seal(bytes(body), version) == payload


def test_redis_gives_one_answer_to_what_we_refuse_as_checksum_or_version(redis_server: redis.Redis) -> None:
    for payload in (b"", b"short", seal(b"\x00\x01a", 16), TYPE_21[:-1] + b"?"):
        with pytest.raises((WrongChecksum, UnsupportedVersion)):
            open_payload(payload)
        with pytest.raises(redis.ResponseError, match="DUMP payload version or checksum are wrong"):
            redis_server.restore("key", 0, payload)
