"""The commands of append-only files, against a reader of a few plain lines."""

import re
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.aof import AofReader, Ending, encode, find_command

commands = st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=6), max_size=8)
annotations = st.binary(max_size=20).map(lambda text: b"#" + re.sub(rb"[\0\n]", b"", text) + b"\r\n")

HISTORY = [
    [b"SELECT", b"0"],
    [b"MULTI"],
    [b"XADD", b"orders", b"1-1", b"", b"\r\n*1\r\n", b"x" * 30, b"\x00\x00"],
    [b"XGROUP", b"SETID", b"orders", b"g", b"1-1"],
    [b"EXEC"],
    [b"DEL", b"k"],
]


def plain_encode(argv: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(argv) + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in argv)


def plain_read(data: bytes) -> tuple[list[list[bytes]], int]:
    """The commands that `data` begins with, and where they end."""
    data = data.rstrip(b"\x00")
    found: list[list[bytes]] = []
    at = 0
    while True:
        if annotation := re.compile(rb"#[^\0\n]{0,1022}\r\n").match(data, at):
            at = annotation.end()
            continue
        header = re.compile(rb"\*([1-9][0-9]{0,17})\r\n").match(data, at)
        if header is None:
            return found, at
        argv: list[bytes] = []
        next_at = header.end()
        for _ in range(min(int(header[1]), len(data))):
            size = re.compile(rb"\$(0|[1-9][0-9]{0,17})\r\n").match(data, next_at)
            if size is None:
                return found, at
            end = size.end() + int(size[1])
            if data[end : end + 2] != b"\r\n":
                return found, at
            argv.append(data[size.end() : end])
            next_at = end + 2
        if len(argv) < int(header[1]):
            return found, at
        found.append(argv)
        at = next_at


def read_all(reader: AofReader) -> list[list[bytes]]:
    found = []
    end = reader.position
    while (argv := reader.next()) is not None:
        assert end <= reader.start < reader.position <= reader.data_size
        end = reader.position
        found.append(argv)
    assert reader.next() is None
    return found


def could_go_on(data: bytes) -> bool:
    """Whether bytes could be the beginning of one more command or annotation."""
    if data.startswith(b"#"):
        return b"\n" not in data and b"\0" not in data and len(data) <= 1025
    number = rb"(?:[1-9][0-9]{0,17})"
    if re.fullmatch(rb"\*(?:%b(?:\r)?)?" % number, data):
        return True
    header = re.match(rb"\*(%b)\r\n" % number, data)
    if header is None:
        return False
    at = header.end()
    for _ in range(min(int(header[1]), len(data))):
        if re.fullmatch(rb"(?:\$(?:(?:0|%b)(?:\r)?)?)?" % number, data[at:]):
            return True
        size = re.compile(rb"\$(0|[1-9][0-9]{0,17})\r\n").match(data, at)
        if size is None:
            return False
        at = size.end() + int(size[1])
        if data[at : at + 2] != b"\r\n":
            return b"\r\n".startswith(data[at : at + 2]) and len(data) < at + 2
        at += 2
    return True


@given(commands)
def test_what_is_written_is_read_again(history: list[list[bytes]]) -> None:
    data = b"".join(map(encode, history))
    assert data == b"".join(map(plain_encode, history))
    reader = AofReader(data)
    assert read_all(reader) == history
    assert reader.ending is Ending.COMPLETE
    assert (reader.position, reader.unused, reader.problem) == (len(data), 0, "")


@given(st.lists(st.one_of(annotations, st.lists(st.binary(max_size=9), min_size=1).map(encode))))
def test_annotations_between_commands_are_skipped(parts: list[bytes]) -> None:
    reader = AofReader(b"".join(parts))
    assert read_all(reader) == plain_read(b"".join(parts))[0]
    assert reader.ending is Ending.COMPLETE


def check_ending(data: bytes) -> AofReader:
    reader = AofReader(data)
    expected, end = plain_read(data)
    assert read_all(reader) == expected
    assert reader.position == end
    rest = data.rstrip(b"\x00")[end:]
    assert reader.unused == len(data) - end - len(rest)
    if not rest:
        assert reader.ending is Ending.COMPLETE
    elif could_go_on(rest):
        assert reader.ending is Ending.TRUNCATED
        assert reader.bad == reader.data_size
    else:
        assert reader.ending is Ending.CORRUPT
        assert end <= reader.bad < reader.data_size
        # Up to the bad byte all is well, with it no more.
        good = data[: reader.bad]
        assert not good.endswith(b"\x00")
        assert could_go_on(good[end:]) or reader.bad == end
        assert not could_go_on(data[end : reader.bad + 1])
    return reader


@pytest.mark.parametrize("zeros", [0, 1, 7, 8, 9, 4096])
def test_each_length_of_a_file_ends_complete_or_truncated(zeros: int) -> None:
    data = b"#TS:1731659144\r\n".join(map(encode, HISTORY))
    for size in range(len(data) + 1):
        reader = check_ending(data[:size] + bytes(zeros))
        assert reader.ending is not Ending.CORRUPT


def test_each_byte_changed_is_found_where_it_is_or_changes_only_a_value() -> None:
    data = b"#TS:1731659144\r\n".join(map(encode, HISTORY))
    for at in range(len(data)):
        for other in (data[at] ^ 1, data[at] ^ 0xFF, 0, ord("*"), ord("0"), ord("9"), ord("\n")):
            changed = bytearray(data)
            changed[at] = other
            if other == 0 and b"\x00\x00" in data[at:]:
                continue  # the model of `could_go_on` does not look behind zeros
            reader = AofReader(bytes(changed))
            assert read_all(reader) == plain_read(bytes(changed))[0]
            if reader.ending is not Ending.COMPLETE:
                assert reader.bad >= at or changed[at : at + 1].isdigit() or b"#" in changed[at : at + 1]


@given(
    st.lists(
        st.sampled_from([b"*1\r\n", b"*2\r\n", b"$1\r\n", b"$0\r\n\r\n", b"a\r\n", b"#", b"\r", b"\n", b"0", b"9" * 9])
    )
)
def test_any_bytes_are_read_as_the_plain_reader_does(parts: list[bytes]) -> None:
    check_ending(b"".join(parts))


@pytest.mark.parametrize(
    ("data", "bad", "problem"),
    [
        (b"PING\r\n", 0, "expected the * of a command or the # of an annotation, found byte 0x50"),
        (b"*0\r\n", 1, "expected a number of arguments, from 1 on, found byte 0x30"),
        (b"*01\r\n", 2, "expected a number of arguments, from 1 on, found byte 0x31"),
        (b"*-1\r\n", 1, "expected a number of arguments, from 1 on, found byte 0x2d"),
        (b"*1\n$1\r\na\r\n", 2, "expected the CR that ends a line, found byte 0x0a"),
        (b"*1\r\r", 3, "expected the LF that ends a line, found byte 0x0d"),
        (b"*1\r\n+OK\r\n", 4, "expected the $ of an argument, found byte 0x2b"),
        (b"*1\r\n$-1\r\n", 5, "expected the size of an argument, found byte 0x2d"),
        (b"*1\r\n$1\r\nabc", 9, "expected the CR that ends a line, found byte 0x62"),
        (b"*1\r\n$" + b"9" * 19, 23, "expected the size of an argument, found byte 0x39"),
        (b"#" + b"a" * 1025, 1025, "expected the end of an annotation, found byte 0x61"),
        (b"#TS\n", 3, "expected the CR that ends a line, found byte 0x0a"),
    ],
)
def test_what_is_wrong_is_named_with_its_offset(data: bytes, bad: int, problem: str) -> None:
    good = encode([b"PING"])
    reader = AofReader(good + data)
    assert read_all(reader) == [[b"PING"]]
    assert reader.ending is Ending.CORRUPT
    assert (reader.position, reader.bad, reader.problem) == (len(good), len(good) + bad, problem)


@pytest.mark.parametrize("data", [b"*1\r\n$999999999999999999\r\nabc", b"*999999999999999999\r\n$1\r\na\r\n"])
def test_a_declared_size_that_is_not_there_allocates_nothing(data: bytes) -> None:
    reader = AofReader(data)
    assert reader.next() is None
    assert reader.ending is Ending.TRUNCATED
    assert len(reader.begun()) <= 1


def test_the_arguments_of_a_command_that_was_cut_off_can_be_listed() -> None:
    data = encode([b"XADD", b"orders", b"1-1", b"field", b"value"])
    reader = AofReader(data[:-4])
    assert reader.next() is None
    assert reader.begun() == [b"XADD", b"orders", b"1-1", b"field"]


def test_an_open_transaction_is_remembered_with_its_offset() -> None:
    reader = AofReader(
        b"".join(map(encode, [[b"DEL", b"k"], [b"multi"], [b"DEL", b"k"], [b"Exec"], [b"MULTI"], [b"EXECX"]]))
    )
    seen = []
    while reader.next() is not None:
        seen.append(reader.open_multi >= 0 and reader.open_multi)
    multi = len(encode([b"DEL", b"k"]))
    second = 2 * multi + len(encode([b"MULTI"])) + len(encode([b"EXEC"]))
    assert seen == [False, multi, multi, False, second, second]


def test_reading_begins_at_any_offset() -> None:
    first, second = encode([b"A"]), encode([b"B"])
    reader = AofReader(first + second, len(first))
    assert read_all(reader) == [[b"B"]]
    assert reader.start == len(first)
    with pytest.raises(ValueError, match="outside"):
        AofReader(b"", 1)


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.aof"
    path.write_bytes(encode([b"PING"]))
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        reader = AofReader(memoryview(mapped))
        assert reader.next() == [b"PING"]
        del reader


def test_the_next_whole_command_is_found_behind_damage() -> None:
    data = encode([b"PING"]) + b"garbage*3\r\n$1\r\n" + encode([b"DEL", b"k"])
    found = find_command(data, 1)
    assert data[found:] == encode([b"DEL", b"k"])
    assert find_command(data, found + 1) == -1
    assert find_command(data, len(data) + 5) == -1


def test_a_command_needs_a_name_and_bytes() -> None:
    with pytest.raises(ValueError, match="name"):
        encode([])
    with pytest.raises(TypeError):
        encode(["text"])  # type: ignore[list-item]
