"""CRC-32C: the check value of its definition, and agreement with it, one bit at a time."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.crc32c import crc32c, crc32c_by_tables

CHECK = 0xE3069283


def crc_by_bits(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_check_value_is_that_of_the_definition() -> None:
    assert crc32c(b"123456789") == CHECK
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_no_bytes_leave_the_crc_as_it_was() -> None:
    assert crc32c(b"") == 0
    assert crc32c(b"", CHECK) == CHECK


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_with_an_instruction_and_without_it_equals_the_definition(data: bytes, start: int) -> None:
    assert crc32c(data, start) == crc32c_by_tables(data, start) == crc_by_bits(data, start)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_it_continues_from_the_crc_of_the_bytes_before(head: bytes, tail: bytes) -> None:
    assert crc32c(tail, crc32c(head)) == crc32c(head + tail)


@given(st.binary(max_size=60), st.integers(0, 16))
def test_every_kind_of_buffer_and_alignment_gives_the_same(data: bytes, skipped: int) -> None:
    expected = crc32c(data[skipped:])
    assert crc32c(memoryview(data)[skipped:]) == expected
    assert crc32c(bytearray(data)[skipped:]) == expected


def test_large_buffers_may_be_summed_by_several_threads_at_once() -> None:
    data = bytes(range(256)) * 256
    expected = crc_by_bits(data)
    sums: list[int] = []
    threads = [threading.Thread(target=lambda: sums.append(crc32c(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [expected] * 4


@pytest.mark.parametrize("start", [-1, 2**32])
def test_a_crc_is_32_bits(start: int) -> None:
    with pytest.raises(OverflowError):
        crc32c(b"x", start)
