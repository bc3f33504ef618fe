"""The seals of groups, against a reader of a few plain lines: what is not as it was sealed is not given out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.aof import AofReader, Ending, encode
from headrace.formats.aof_seal import SEAL_BYTES, seal, was_synced
from headrace.formats.crc64 import crc64

HISTORY = [
    [[b"SELECT", b"0"], [b"XADD", b"orders", b"1-1", b"item", b"pen"]],
    [[b"SET", b"seal", seal(b"") + b"\r\n*1\r\n"]],
    [[b"MULTI"], [b"SET", b"zeros", bytes(40)], [b"EXEC"]],
]
commands = st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=4)


def sealed(group: list[list[bytes]], unsynced: int = 0) -> bytes:
    data = b"".join(map(encode, group))
    return seal(data, unsynced) + data


def read_all(data: bytes) -> tuple[list[list[bytes]], AofReader]:
    reader = AofReader(data)
    found = []
    while (argv := reader.next()) is not None:
        found.append(argv)
    return found, reader


def test_a_seal_is_its_size_what_was_not_synced_and_a_checksum_of_all() -> None:
    data = encode([b"PING"])
    head = b"#HR:%010x:%08x:" % (len(data), 300)
    assert seal(data, 300) == head + b"%016x\r\n" % crc64(head + data)
    assert len(seal(b"")) == SEAL_BYTES
    assert seal(b"", 1 << 40)[15:23] == b"ffffffff"


@given(st.lists(st.tuples(st.booleans(), commands)))
def test_groups_and_commands_without_a_seal_follow_each_other_in_any_order(
    parts: list[tuple[bool, list[list[bytes]]]],
) -> None:
    data = b"".join(sealed(group) if is_sealed else b"".join(map(encode, group)) for is_sealed, group in parts)
    found, reader = read_all(data)
    assert found == [argv for _, group in parts for argv in group]
    assert (reader.ending, reader.groups) == (Ending.COMPLETE, sum(is_sealed for is_sealed, _ in parts))


def test_each_length_gives_out_whole_groups_only() -> None:
    data = b"".join(map(sealed, HISTORY))
    ends = [len(b"".join(map(sealed, HISTORY[:count]))) for count in range(len(HISTORY) + 1)]
    for size in range(len(data)):
        found, reader = read_all(data[:size])
        whole = sum(end <= size for end in ends) - 1
        assert found == [argv for group in HISTORY[:whole] for argv in group]
        assert (reader.position, reader.groups) == (ends[whole], whole)
        assert reader.ending is (Ending.COMPLETE if size in ends else Ending.TRUNCATED)


def test_each_changed_byte_is_noticed_or_changes_nothing() -> None:
    data = b"".join(map(sealed, HISTORY))
    ends = [len(b"".join(map(sealed, HISTORY[:count]))) for count in range(len(HISTORY) + 1)]
    everything = [argv for group in HISTORY for argv in group]
    for at in range(len(data)):
        hit = sum(end <= at for end in ends) - 1
        for other in range(256):
            if other == data[at]:
                continue
            found, reader = read_all(data[:at] + bytes([other]) + data[at + 1 :])
            if reader.ending is Ending.COMPLETE:
                assert found == everything, (at, other)
                assert at < ends[hit] + 4, "only a seal that is an annotation like others is passed over"
            else:
                assert found == [argv for group in HISTORY[:hit] for argv in group], (at, other)
                assert reader.position == ends[hit]


@given(st.integers(0, SEAL_BYTES - 1), st.integers(1, 255))
def test_a_seal_that_was_damaged_is_not_taken_for_one_that_was_cut(at: int, flip: int) -> None:
    """The last group is whole then, and was acknowledged."""
    data = bytearray(sealed(HISTORY[0]))
    data[at] ^= flip
    found, reader = read_all(bytes(data))
    assert reader.ending is not Ending.TRUNCATED
    assert found == [] or re.match(rb"#(?!HR:)", data)


@pytest.mark.parametrize(
    ("damage", "bad", "problem"),
    [
        ((4, b"g"), 0, "expected the seal of a group, found byte 0x23"),
        ((40, b"\n"), 40, "expected the CR that ends a line, found byte 0x0a"),
        ((13, b"\xff"), 0, "expected the seal of a group, found byte 0x23"),
        ((4, b"f"), 0, "expected the size of a group, found byte 0x23"),
        ((23, b"\0"), 23, "expected the end of an annotation, found byte 0x00"),
        ((SEAL_BYTES + 8, b"X"), 0, "a group of commands is not as it was sealed"),
    ],
)
def test_what_is_wrong_is_named_with_its_offset(damage: tuple[int, bytes], bad: int, problem: str) -> None:
    before = encode([b"PING"])
    data = bytearray(sealed(HISTORY[0]))
    data[damage[0] : damage[0] + 1] = damage[1]
    found, reader = read_all(before + bytes(data))
    assert found == [[b"PING"]]
    assert (reader.position, reader.bad - len(before), reader.problem) == (len(before), bad, problem)


def test_where_a_group_is() -> None:
    first = sealed(HISTORY[0])
    data = first + sealed(HISTORY[1])
    _, reader = read_all(data)
    assert (reader.group_start, reader.group_end) == (len(first), len(data))
    _, reader = read_all(data[:-1])
    assert (reader.position, reader.group_start, reader.group_end) == (len(first), len(first), len(data))
    assert reader.problem == "the file ends inside a group of commands"


# --- what was on disk ----------------------------------------------------------------------------------------------


def test_a_whole_group_says_what_was_on_disk_before_it() -> None:
    damaged = b"x" * 1000
    group = sealed(HISTORY[0], unsynced=100)
    assert was_synced(damaged + group, 899, 1000)
    assert was_synced(damaged + group, 899, 0)
    assert not was_synced(damaged + group, 900, 1000)
    assert not was_synced(damaged + group, 899, 1001)
    assert not was_synced(damaged + group[:-1], 899, 1000)
    assert not was_synced(damaged + group[:-3] + b"X\r\n", 899, 1000)
    assert was_synced(damaged + group + sealed([]), 950, 1000)
    assert not was_synced(damaged + sealed([], 1 << 32), 0, 1000)
    assert not was_synced(b"", 0, 0)
    assert not was_synced(b"#" * 100, 0, 200)
    with pytest.raises(ValueError, match="negative"):
        was_synced(b"", -1, 0)
