"""Commands in annotations: read as commands here, passed over by Redis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.aof import AofReader, Ending, encode, hide

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


@pytest.mark.parametrize("size", [1, 500, 719, 720, 721, 5000])
def test_no_line_is_longer_than_redis_takes(size: int) -> None:
    for line in hide([b"x" * size]).splitlines(keepends=True):
        assert line.startswith(b"#HE")
        assert line.endswith(b"\r\n")
        assert len(line) < 1024


def test_a_command_in_annotations_that_is_cut_off_is_truncated() -> None:
    hidden = hide([b"HEADRACE", b"SEEN", b"x" * 2000])
    for size in range(1, len(hidden)):
        commands, reader = read(hidden[:size])
        assert commands == []
        assert reader.ending is Ending.TRUNCATED, size
        assert reader.position == 0


@pytest.mark.parametrize(
    "lines",
    [
        b"#HE:\r\n",
        b"#HE:!!!!\r\n",
        b"#HE:KjEN\r\n",
        hide(SEEN)[:-2].replace(b"#HE:", b"#HE:AAAA") + b"\r\n",
        b"#HE+KjEN\r\n*1\r\n$4\r\nEXEC\r\n",
        b"#HE+KjEN\r\n#TS:1731659144\r\n",
    ],
)
def test_an_annotation_that_holds_no_command_is_damage(lines: bytes) -> None:
    commands, reader = read(lines)
    assert commands == []
    assert reader.ending is Ending.CORRUPT
    assert "a command in an annotation" in reader.problem
