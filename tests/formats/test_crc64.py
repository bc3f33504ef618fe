"""CRC-64: Redis's check value, and agreement with the definition, one bit at a time."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.crc64 import crc64

CHECK = 0xE9C6D914C4B8D9CA


def crc_by_bits(data: bytes, crc: int = 0) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def test_the_check_value_is_that_of_redis() -> None:
    assert crc64(b"123456789") == CHECK


def test_no_bytes_leave_the_crc_as_it_was() -> None:
    assert crc64(b"") == 0
    assert crc64(b"", CHECK) == CHECK


@given(st.binary(max_size=100), st.integers(0, 2**64 - 1))
def test_it_equals_the_definition(data: bytes, start: int) -> None:
    assert crc64(data, start) == crc_by_bits(data, start)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_it_continues_from_the_crc_of_the_bytes_before(head: bytes, tail: bytes) -> None:
    assert crc64(tail, crc64(head)) == crc64(head + tail)


@given(st.binary(max_size=40), st.integers(0, 8))
def test_every_kind_of_buffer_and_alignment_gives_the_same(data: bytes, skipped: int) -> None:
    expected = crc64(data[skipped:])
    assert crc64(memoryview(data)[skipped:]) == expected
    assert crc64(bytearray(data)[skipped:]) == expected


def test_large_buffers_may_be_summed_by_several_threads_at_once() -> None:
    data = bytes(range(256)) * 1024
    expected = crc_by_bits(data)
    sums: list[int] = []
    threads = [threading.Thread(target=lambda: sums.append(crc64(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [expected] * 4


@pytest.mark.parametrize("start", [-1, 2**64])
def test_a_crc_is_64_bits(start: int) -> None:
    with pytest.raises(OverflowError):
        crc64(b"x", start)


def test_only_contiguous_bytes_have_a_crc() -> None:
    with pytest.raises(BufferError):
        crc64(memoryview(b"abcdef")[::2])
    with pytest.raises(TypeError):
        crc64("text")  # type: ignore[arg-type]
