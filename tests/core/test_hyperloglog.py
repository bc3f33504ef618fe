"""HyperLogLogs against a plain list of registers, sparse and dense, and with bytes that nobody may trust."""

import random

import pytest

from headrace.core.errors import CorruptHyperLogLog
from headrace.core.hyperloglog import HyperLogLog, count_together

HEAD = b"HYLL"
REGISTERS = 16384


def registers_of(sketch: HyperLogLog) -> list[int]:
    """Read the registers from the string, as the module describes it."""
    text = sketch.to_bytes()
    found: list[int] = []
    if text[4] == 0:
        bits = int.from_bytes(text[16:], "little")
        return [(bits >> (6 * index)) & 63 for index in range(REGISTERS)]
    at = 16
    while at < len(text):
        byte = text[at]
        if byte & 0x80:
            found += [(byte >> 2 & 31) + 1] * ((byte & 3) + 1)
        elif byte & 0x40:
            at += 1
            found += [0] * (((byte & 63) << 8 | text[at]) + 1)
        else:
            found += [0] * (byte + 1)
        at += 1
    return found


def test_a_new_one_is_empty() -> None:
    sketch = HyperLogLog()
    assert registers_of(sketch) == [0] * REGISTERS
    assert sketch.kept_count == sketch.count() == 0


@pytest.mark.parametrize("count", [1, 10, 1000, 100_000])
def test_the_count_is_near_the_number_of_different_elements(count: int) -> None:
    sketch = HyperLogLog(None, 3000)
    for _ in range(2):
        for element in range(count):
            sketch.add(b"%d" % element)
    assert abs(sketch.count() - count) <= 0.03 * count


def test_sparse_and_dense_have_the_same_registers_and_counts() -> None:
    sparse, dense = HyperLogLog(), HyperLogLog(None, 0)
    for element in range(5000):
        assert sparse.add(b"%d" % element) == dense.add(b"%d" % element)
    assert (sparse.is_dense, dense.is_dense, dense.outgrew) == (False, True, True)
    assert registers_of(sparse) == registers_of(dense)
    assert sparse.count() == dense.count()


@pytest.mark.parametrize("limit", [20, 1 << 30])
def test_merged_registers_are_the_greatest_of_all(limit: int) -> None:
    sketches = [HyperLogLog(None, limit) for _ in range(3)]
    choices = random.Random(1)
    for _ in range(3000):
        choices.choice(sketches).add(choices.randbytes(8))
    expected = [max(values) for values in zip(*map(registers_of, sketches), strict=True)]
    together = count_together(sketches)
    sketches[0].merge(sketches[1:])
    assert registers_of(sketches[0]) == expected
    assert sketches[0].count() == together


def test_a_kept_count_is_forgotten_when_it_is_told() -> None:
    sketch = HyperLogLog()
    sketch.add(b"a")
    sketch.keep_count(7)
    assert HyperLogLog(sketch.to_bytes()).kept_count == 7
    sketch.forget_count()
    assert sketch.kept_count is None


def test_any_bytes_are_counted_changed_or_refused() -> None:
    choices = random.Random(2)
    refused = done = 0
    for _ in range(20_000):
        size = choices.choice((0, 1, 2, 3, 30, 300))
        runs = bytes(choices.choice((0x7F, 0xFF, 0x40, 0x83, choices.randrange(256))) for _ in range(size))
        text = HEAD + b"\1\0\0\0" + choices.randbytes(8) + runs
        assert HyperLogLog.has_header(text)
        for limit in (0, len(text), 1 << 30):
            sketch = HyperLogLog(text, limit)
            for act in (sketch.count, lambda: sketch.add(b"a"), lambda: sketch.merge([HyperLogLog(text)])):  # noqa: B023
                try:
                    act()
                    done += 1
                except CorruptHyperLogLog:
                    refused += 1
            if sketch.is_dense:
                assert len(sketch.to_bytes()) == 16 + REGISTERS * 6 // 8
    assert done > 100
    assert refused > 100


@pytest.mark.parametrize(
    "text",
    [b"", b"HYLL", b"HYLL\1" + bytes(10), b"hyll\1" + bytes(11), b"HYLL\2" + bytes(11), b"HYLL\0" + bytes(11)],
)
def test_what_has_another_header_or_length_is_none(text: bytes) -> None:
    assert not HyperLogLog.has_header(text)
