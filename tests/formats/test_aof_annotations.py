"""Commands in the text of a PING, read as commands here and without a meaning for Redis; places in annotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.aof import AofReader, Ending, encode, hide, place

SEEN = [b"HEADRACE", b"SEEN", b"key", b"group", b"consumer", b"5", b"-1"]


def read(data: bytes) -> tuple[list[list[bytes]], AofReader]:
    reader = AofReader(data)
    commands = []
    while (argv := reader.next()) is not None:
        commands.append(argv)
    return commands, reader


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=5))
def test_any_command_comes_out_as_it_went_in(argv: list[bytes]) -> None:
    hidden = hide(argv)
    commands, reader = read(encode([b"SET", b"k", b"v"]) + hidden + encode([b"DEL", b"k"]))
    assert commands == [[b"SET", b"k", b"v"], argv, [b"DEL", b"k"]]
    assert reader.ending is Ending.COMPLETE


def test_a_hidden_command_that_is_cut_off_is_truncated() -> None:
    hidden = hide([b"HEADRACE", b"SEEN", b"x" * 2000])
    for size in range(1, len(hidden)):
        commands, reader = read(hidden[:size])
        assert commands == []
        assert reader.ending is Ending.TRUNCATED, size
        assert reader.position == 0


@pytest.mark.parametrize("text", [b"", b"!", encode(SEEN)[:-1], encode(SEEN) * 2, b"*1\r\n", b"\0"])
def test_a_marked_ping_that_holds_no_command_is_damage(text: bytes) -> None:
    commands, reader = read(encode([b"PING", b"#HE:" + text]))
    assert commands == []
    assert reader.ending is Ending.CORRUPT
    assert "a command in the text of a PING" in reader.problem


@pytest.mark.parametrize("argv", [[b"PING"], [b"PING", b"#HE"], [b"PING", b"hello"], [b"PING", b"#HE:", b"x"]])
def test_any_other_ping_is_itself(argv: list[bytes]) -> None:
    assert read(encode(argv))[0] == [argv]


def test_what_follows_a_place_is_counted_from_there() -> None:
    first, second = encode([b"SET", b"a", b"1"]), encode([b"SET", b"b", b"2"])
    reader = AofReader(first + place(b"a" * 40, 7000) + second + b"#TS:1\r\n" + place(b"b" * 40, 9000) + first)
    reader.count_from(100)
    reader.next()
    assert (reader.offset, reader.places) == (100 + len(first), [])
    reader.next()
    assert reader.offset == 7000 + len(second)
    while reader.next() is not None:
        pass
    assert reader.offset == 9000 + len(first)
    assert reader.places == [(b"a" * 40, 7000), (b"b" * 40, 9000)]


@pytest.mark.parametrize(
    "line",
    [
        *(b"#HO:\r\n", b"#HO:" + b"a" * 40 + b"\r\n", b"#HO:" + b"a" * 40 + b":\r\n", b"#HO:" + b"a" * 39 + b":12\r\n"),
        *(place(b"a" * 40, 12)[:-3] + b"x\r\n", b"#HO:" + b"a" * 40 + b":" + b"1" * 19 + b"\r\n"),
    ],
)
def test_a_place_that_says_none_is_damage(line: bytes) -> None:
    _, reader = read(line)
    assert reader.ending is Ending.CORRUPT
    assert "a history and an offset" in reader.problem
