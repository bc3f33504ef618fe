"""What effects a file of the journal has, from any offset of its history on: the file's own SELECTs are not among them.

*2 SELECT 1     the file's own
#HO:…:100       what follows is at offset 100
"""

import pytest

from headrace.formats.aof import AofReader, encode

HISTORY = b"5" * 40
BEGINNING = 100
OWN = encode([b"SELECT", b"1"])
FIRST = encode([b"SET", b"first", b"1"])
SECOND = encode([b"SET", b"second", b"2"]) + encode([b"MULTI"]) + encode([b"DEL", b"first"]) + encode([b"EXEC"])


def place(offset: int) -> bytes:
    return b"#HO:%s:%d\r\n" % (HISTORY, offset)


def copy(file: bytes, offset: int, most: int) -> bytes:
    """Copy all there is from an offset on, so many bytes at a time, as a follower is sent it."""
    text = b""
    position, position_offset = 0, BEGINNING
    while True:
        reader = AofReader(file, position)
        reader.count_from(position_offset)
        piece = reader.copy_history(offset + len(text), most)
        if not piece:
            return text
        text += piece
        position, position_offset = reader.position, reader.offset


@pytest.mark.parametrize("most", [1, 25, 1000])
def test_a_file_is_copied_from_any_byte_of_its_history_on(most: int) -> None:
    history = FIRST + SECOND
    in_the_middle = OWN + place(BEGINNING) + FIRST + OWN + place(BEGINNING + len(FIRST)) + SECOND
    for begin in range(len(history)):
        assert copy(in_the_middle, BEGINNING + begin, most) == history[begin:]


@pytest.mark.parametrize("most", [1, 25, 1000])
@pytest.mark.parametrize("missing", [1, len(OWN) - 1, len(OWN) + 1, 500])
def test_what_stands_before_a_gap_is_copied_and_nothing_behind_it(most: int, missing: int) -> None:
    file = OWN + place(BEGINNING) + FIRST + OWN + place(BEGINNING + len(FIRST) + missing) + SECOND
    for begin in range(len(FIRST)):
        assert copy(file, BEGINNING + begin, most) == FIRST[begin:]
