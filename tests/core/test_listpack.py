"""Listpacks: every encoding at its edges, editing against a Python list, and a validator that no byte gets past."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.core.errors import CorruptListpack, EntryTooLarge
from headrace.core.listpack import Listpack, is_well_formed, with_old_backlens
from support.campaign import LONG

EMPTY = bytes.fromhex("07 00 00 00 00 00 ff")

Value = bytes | int


def packed(*values: Value) -> Listpack:
    listpack = Listpack()
    for value in values:
        listpack.append(value)
    return listpack


def body_and_backlen(value: Value) -> tuple[bytes, bytes]:
    """The bytes of the one element of a listpack, split where the listpack itself says."""
    listpack = packed(value)
    [(offset, _, _, size, width)] = listpack.describe()
    raw = bytes(listpack)
    assert (offset, len(raw)) == (6, 6 + size + width + 1)
    return raw[6 : 6 + size], raw[6 + size : -1]


def sealed(elements: bytes, count: int) -> bytes:
    """A listpack of these element bytes."""
    return (len(elements) + 7).to_bytes(4, "little") + count.to_bytes(2, "little") + elements + b"\xff"


# --- an independent reader, written for being obvious ----------------------------------------------------------

DOUBLE_WIDTHS = (16383, 2097151, 268435455)


def backlen_of(size: int, extra: int = 0) -> bytes:
    """The size in groups of seven bits, highest first; all but the leftmost byte have bit 7 set."""
    groups = [size & 127]
    while size := size >> 7:
        groups.insert(0, size & 127)
    groups = [0] * extra + groups
    return bytes([groups[0], *(128 | group for group in groups[1:])])


def element_size(data: bytes, at: int) -> int | None:
    """How many bytes encoding and data claim to have; None where the bytes at `at` begin no element."""
    head = data[at : at + 5]
    if not head:
        return None
    first = head[0]
    if first <= 0x7F:
        return 1
    if first <= 0xBF:
        return 1 + (first - 0x80)
    if first <= 0xDF:
        return 2
    if first <= 0xEF:
        return None if len(head) < 2 else 2 + (first - 0xE0) * 256 + head[1]
    if first == 0xF0:
        return None if len(head) < 5 else 5 + int.from_bytes(head[1:5], "little")
    return {0xF1: 3, 0xF2: 4, 0xF3: 5, 0xF4: 9}.get(first)


def element_at(data: bytes, at: int, size: int) -> Value:
    body = data[at : at + size]
    if body[0] <= 0x7F:
        return body[0]
    if body[0] <= 0xBF:
        return body[1:]
    if body[0] <= 0xDF:
        unsigned = (body[0] & 31) * 256 + body[1]
        return unsigned - 8192 if unsigned >= 4096 else unsigned
    if body[0] <= 0xEF:
        return body[2:]
    if body[0] == 0xF0:
        return body[5:]
    return int.from_bytes(body[1:], "little", signed=True)


def read_listpack(data: bytes) -> list[Value] | None:
    """The elements, or None where the bytes are no listpack in either generation of backlens."""
    if len(data) < 7 or int.from_bytes(data[:4], "little") != len(data) or data[-1] != 0xFF:
        return None
    inner = data[:-1]
    values: list[Value] = []
    at = 6
    while at < len(inner):
        size = element_size(inner, at)
        if size is None or at + size > len(inner):
            return None
        allowed = [backlen_of(size)] + ([backlen_of(size, extra=1)] if size in DOUBLE_WIDTHS else [])
        backlen = next((backlen for backlen in allowed if inner.startswith(backlen, at + size)), None)
        if backlen is None:
            return None
        values.append(element_at(inner, at, size))
        at += size + len(backlen)
    count = int.from_bytes(data[4:6], "little")
    if count not in (65535, len(values)):
        return None
    return values


def agree(data: bytes) -> bool:
    """Check the compiled validator and reader on these bytes; whether they were a listpack."""
    expected = read_listpack(data)
    assert is_well_formed(data) == (expected is not None), data.hex()
    if expected is None:
        with pytest.raises(CorruptListpack):
            Listpack.from_bytes(data)
        with pytest.raises(CorruptListpack):
            with_old_backlens(data)
        return False
    listpack = Listpack.from_bytes(data)
    assert list(listpack) == expected
    assert list(reversed(listpack)) == expected[::-1]
    return True


# --- encodings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "c080"),
        (4095, "cfff"),
        (-1, "dfff"),
        (-4096, "d000"),
        (4096, "f1 0010"),
        (-4097, "f1 ffef"),
        (32767, "f1 ff7f"),
        (-32768, "f1 0080"),
        (32768, "f2 008000"),
        (-32769, "f2 ff7fff"),
        (8388607, "f2 ffff7f"),
        (-8388608, "f2 000080"),
        (8388608, "f3 00008000"),
        (-8388609, "f3 ffff7fff"),
        (2147483647, "f3 ffffff7f"),
        (-2147483648, "f3 00000080"),
        (2147483648, "f4 0000008000000000"),
        (-2147483649, "f4 ffffff7fffffffff"),
        (2**63 - 1, "f4 ffffffffffffff7f"),
        (-(2**63), "f4 0000000000000080"),
    ],
)
def test_an_integer_takes_the_smallest_form_that_holds_it(value: int, body: str) -> None:
    encoded, backlen = body_and_backlen(value)
    assert encoded == bytes.fromhex(body)
    assert backlen == bytes([len(encoded)])
    assert list(packed(value)) == [value]
    assert body_and_backlen(b"%d" % value) == (encoded, backlen)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_integer_reads_back(value: int) -> None:
    assert list(packed(value)) == [value]
    assert list(packed(b"%d" % value)) == [value]


@pytest.mark.parametrize(
    ("size", "head", "encoding"),
    [
        (0, "80", "str6"),
        (1, "81", "str6"),
        (63, "bf", "str6"),
        (64, "e040", "str12"),
        (255, "e0ff", "str12"),
        (256, "e100", "str12"),
        (4095, "efff", "str12"),
        (4096, "f000100000", "str32"),
        (65536, "f000000100", "str32"),
        (2**24, "f000000001", "str32"),
    ],
)
def test_a_string_takes_the_shortest_head_that_holds_its_length(size: int, head: str, encoding: str) -> None:
    value = b"x" * size
    encoded, backlen = body_and_backlen(value)
    assert encoded == bytes.fromhex(head) + value
    assert backlen == backlen_of(len(encoded))
    assert packed(value).describe() == [(6, encoding, value, len(encoded), len(backlen))]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (b"0", 0),
        (b"127", 127),
        (b"-1", -1),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"9223372036854775808", b"9223372036854775808"),
        (b"-9223372036854775809", b"-9223372036854775809"),
        (b"18446744073709551615", b"18446744073709551615"),
        (b"99999999999999999999", b"99999999999999999999"),
        (b"100000000000000000000", b"100000000000000000000"),
        (b"-0", b"-0"),
        (b"00", b"00"),
        (b"01", b"01"),
        (b"-01", b"-01"),
        (b"+1", b"+1"),
        (b" 1", b" 1"),
        (b"1 ", b"1 "),
        (b"1.0", b"1.0"),
        (b"1e3", b"1e3"),
        (b"0x1", b"0x1"),
        (b"-", b"-"),
        (b"--1", b"--1"),
        (b"1-", b"1-"),
        (b"1\0", b"1\0"),
        (b"", b""),
        (b"/", b"/"),
        (b":", b":"),
        (b"1:", b"1:"),
        (b"1/", b"1/"),
    ],
)
def test_only_the_canonical_text_of_an_integer_is_stored_as_one(text: bytes, stored: Value) -> None:
    assert list(packed(text)) == [stored]
    assert type(packed(text)[0]) is type(stored)


@given(st.text("0123456789-+ ", max_size=22).map(str.encode))
def test_no_text_that_looks_like_a_number_changes_by_being_stored(text: bytes) -> None:
    [stored] = packed(text)
    assert (b"%d" % stored if isinstance(stored, int) else stored) == text
    canonical = re.fullmatch(rb"0|-?[1-9][0-9]*", text) is not None and -(2**63) <= int(text) < 2**63
    assert isinstance(stored, int) == canonical


@pytest.mark.parametrize(
    ("size", "width"),
    [
        (1, 1),
        (126, 1),
        (127, 1),
        (128, 2),
        (16382, 2),
        (16383, 2),
        (16384, 3),
        (2097150, 3),
        (2097151, 3),
        (2097152, 4),
    ],
)
def test_a_backlen_has_the_fewest_bytes_that_hold_it(size: int, width: int) -> None:
    check_backlen(size, width)


@pytest.mark.skipif(not LONG, reason="needs 2 GB: HEADRACE_LONG=1 runs it")
@pytest.mark.parametrize(("size", "width"), [(268435454, 4), (268435455, 4), (268435456, 5)])
def test_a_backlen_of_the_largest_elements_has_the_fewest_bytes_that_hold_it(size: int, width: int) -> None:
    check_backlen(size, width)


def check_backlen(size: int, width: int) -> None:
    """An element whose encoding and data have `size` bytes, between two others: walked over both ways."""
    head = next(head for head, most in [(1, 64), (2, 4097), (5, 2**30)] if size <= most)
    value = b"x" * (size - head)
    listpack = packed(7, value, b"end")
    rows = listpack.describe()
    assert [(row[3], row[4]) for row in rows] == [(1, 1), (size, width), (4, 1)]
    at = rows[1][0] + size
    assert bytes(listpack)[at : at + width] == backlen_of(size)
    assert len(backlen_of(size)) == width
    assert list(listpack) == [7, value, b"end"]
    assert list(reversed(listpack)) == [b"end", value, 7]
    old = with_old_backlens(bytes(listpack))
    assert len(old) == len(bytes(listpack)) + (size in DOUBLE_WIDTHS)
    assert is_well_formed(old)
    assert bytes(Listpack.from_bytes(old)) == bytes(listpack)


def test_a_node_that_was_worked_out_by_hand() -> None:
    """Elements 1, 0, 1, "f", 0 and 2, 0, 0, "v", 4: what `XADD x 1-1 f v` stores."""
    expected = "1d 00 00 00 0a 00 01 01 00 01 01 01 81 66 02 00 01 02 01 00 01 00 01 81 76 02 04 01 ff"
    assert bytes(packed(1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4)) == bytes.fromhex(expected)


def test_an_empty_listpack_has_7_bytes() -> None:
    assert bytes(Listpack()) == EMPTY
    assert list(Listpack()) == list(reversed(Listpack())) == []
    assert Listpack().describe() == []
    assert len(Listpack()) == 0
    assert is_well_formed(EMPTY)


def test_describe_names_each_encoding() -> None:
    values: list[int | bytes] = [5, b"abc", -5, b"x" * 64, b"y" * 4096, 5000, 100_000, 10_000_000, 10**12]
    rows = packed(*values).describe()
    assert [row[1] for row in rows] == ["uint7", "str6", "int13", "str12", "str32", "int16", "int24", "int32", "int64"]
    assert [row[2] for row in rows] == values
    assert [row[3] for row in rows] == [1, 4, 2, 66, 4101, 3, 4, 5, 9]
    assert [row[4] for row in rows] == [1, 1, 1, 1, 2, 1, 1, 1, 1]
    offset = 6
    for at, _, _, size, width in rows:
        assert at == offset
        offset += size + width
    assert offset + 1 == len(bytes(packed(*values)))


# --- editing ---------------------------------------------------------------------------------------------------

values = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 127, 128, 4095, 4096, -1, -4096, -4097]),
    st.binary(max_size=12),
    st.sampled_from([0, 62, 63, 64, 124, 125, 126, 127, 4095, 4096, 16377, 16378, 16379]).map(lambda size: b"s" * size),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: b"%d" % value),
)
positions = st.integers(0, 2**16)


def stored_form(value: Value) -> Value:
    """What comes back for a value: an integer for the canonical text of one."""
    if isinstance(value, bytes) and re.fullmatch(rb"0|-?[1-9][0-9]*", value) and -(2**63) <= int(value) < 2**63:
        return int(value)
    return value


class ListpackMachine(RuleBasedStateMachine):
    """A listpack and a Python list that undergo the same edits."""

    def __init__(self) -> None:
        super().__init__()
        self.listpack = Listpack()
        self.model: list[Value] = []

    def pick(self, position: int) -> int:
        """A position of the list, counted from either end."""
        size = len(self.model)
        return position % (2 * size) - size

    @rule(value=values)
    def append(self, value: Value) -> None:
        self.listpack.append(value)
        self.model.append(stored_form(value))

    @rule(position=positions, value=values)
    def insert(self, position: int, value: Value) -> None:
        at = position % (len(self.model) + 1)
        self.listpack.insert(at, value)
        self.model.insert(at, stored_form(value))

    @precondition(lambda self: self.model)
    @rule(position=positions, value=values)
    def insert_before(self, position: int, value: Value) -> None:
        at = self.pick(position)
        self.listpack.insert(at, value)
        self.model.insert(at, stored_form(value))

    @precondition(lambda self: self.model)
    @rule(position=positions, value=values)
    def replace(self, position: int, value: Value) -> None:
        at = self.pick(position)
        self.listpack[at] = value
        self.model[at] = stored_form(value)

    @precondition(lambda self: self.model)
    @rule(position=positions)
    def delete(self, position: int) -> None:
        at = self.pick(position)
        del self.listpack[at]
        del self.model[at]

    @precondition(lambda self: self.model)
    @rule(position=positions)
    def look_at_one(self, position: int) -> None:
        at = self.pick(position)
        assert self.listpack[at] == self.model[at]

    @rule()
    def save_and_load(self) -> None:
        self.listpack = Listpack.from_bytes(bytes(self.listpack))

    @rule()
    def save_for_an_old_server_and_load(self) -> None:
        self.listpack = Listpack.from_bytes(with_old_backlens(bytes(self.listpack)))

    @rule(beyond=st.integers(0, 3), value=values)
    def miss(self, beyond: int, value: Value) -> None:
        """What names no element raises and changes nothing."""
        before = bytes(self.listpack)
        size = len(self.model)
        for at in (size + beyond, -size - 1 - beyond):
            with pytest.raises(IndexError):
                self.listpack[at]
            with pytest.raises(IndexError):
                self.listpack[at] = value
            with pytest.raises(IndexError):
                del self.listpack[at]
        with pytest.raises(IndexError):
            self.listpack.insert(size + 1 + beyond, value)
        assert bytes(self.listpack) == before

    @invariant()
    def they_are_equal(self) -> None:
        assert len(self.listpack) == len(self.model)
        assert list(self.listpack) == self.model
        assert list(reversed(self.listpack)) == self.model[::-1]
        assert [row[2] for row in self.listpack.describe()] == self.model
        raw = bytes(self.listpack)
        assert read_listpack(raw) == self.model
        assert is_well_formed(raw)
        assert int.from_bytes(raw[4:6], "little") == len(self.model)


ListpackMachine.TestCase.settings = settings(max_examples=1500 if LONG else 150, stateful_step_count=40)
test_a_listpack_edited_is_a_list_edited = pytest.mark.slow(ListpackMachine.TestCase)


@pytest.mark.parametrize("wrong", [None, "text", 1.5, bytearray(b"x"), [1]])
def test_a_listpack_holds_bytes_and_int_only(wrong: Any) -> None:
    listpack = packed(1)
    for edit in (
        listpack.append,
        lambda value: listpack.insert(0, value),
        lambda value: listpack.__setitem__(0, value),
    ):
        with pytest.raises(TypeError, match="a listpack holds bytes and int"):
            edit(wrong)
    assert list(listpack) == [1]


@pytest.mark.parametrize("wrong", [2**63, -(2**63) - 1, 10**30])
def test_an_integer_of_more_than_64_bits_is_refused(wrong: int) -> None:
    listpack = packed(1)
    with pytest.raises(ValueError, match="64 bits, signed"):
        listpack.append(wrong)
    with pytest.raises(ValueError, match="64 bits, signed"):
        listpack[0] = wrong
    assert list(listpack) == [1]


def test_a_walk_is_over_the_elements_there_were_when_it_began() -> None:
    """An edit under a walk shifts every offset: the walk must not land inside an element."""
    listpack = packed(*[b"\xf0\xff\xff\xff\x7f-%d" % i for i in range(50)])
    held = list(listpack)
    seen = []
    for value in listpack:
        seen.append(value)
        del listpack[0]
        listpack.insert(0, b"z")
    assert seen == held
    listpack = packed(*held)
    backwards = reversed(listpack)
    seen = [next(backwards)]
    while len(listpack) > 1:
        del listpack[0]
    assert seen + list(backwards) == held[::-1]


def test_the_count_says_unknown_from_65535_on_and_recovers_below() -> None:
    """65534 is the greatest count that is stored; one more, and only a walk can tell."""
    data = sealed(b"\x01\x01" * 65534, 65534)
    listpack = Listpack.from_bytes(data)
    assert len(listpack) == 65534
    listpack.append(1)
    assert bytes(listpack)[4:6] == b"\xff\xff"
    assert len(listpack) == 65535
    listpack.append(1)
    listpack.insert(3, 5)
    assert bytes(listpack)[4:6] == b"\xff\xff"
    assert len(listpack) == 65537
    assert listpack[65536] == listpack[-1] == 1
    assert listpack[3] == 5
    for _ in range(3):
        del listpack[0]
    assert bytes(listpack)[4:6] == b"\xff\xff"
    assert len(listpack) == 65534
    assert bytes(listpack)[4:6] == b"\xfe\xff"
    del listpack[0]
    assert bytes(listpack)[4:6] == b"\xfd\xff"
    assert len(listpack) == 65533
    assert read_listpack(bytes(listpack)) == list(listpack)


def test_a_stored_count_of_65535_is_believed_of_no_listpack() -> None:
    listpack = Listpack.from_bytes(sealed(b"\x01\x01\x02\x01", 65535))
    assert len(listpack) == 2
    assert list(listpack) == [1, 2]


@pytest.mark.skipif(not LONG, reason="needs 4 GB: HEADRACE_LONG=1 runs it")
def test_a_listpack_does_not_grow_past_2_to_the_30_bytes() -> None:
    listpack = packed(b"x" * (2**29))
    with pytest.raises(EntryTooLarge):
        listpack.append(b"y" * 2**29)
    with pytest.raises(EntryTooLarge):
        listpack.append(b"y" * (2**30 + 1))
    assert len(listpack) == 1


# --- two generations of backlens -------------------------------------------------------------------------------

AMBIGUOUS = b"a" * (16383 - 5)
AMBIGUOUS_LONGER = b"b" * (2097151 - 5)


def test_a_listpack_for_an_old_server_is_one_byte_wider_at_three_sizes() -> None:
    new = bytes(packed(b"f", AMBIGUOUS, 5, AMBIGUOUS_LONGER, b"g"))
    old = with_old_backlens(new)
    assert len(old) == len(new) + 2
    assert int.from_bytes(old[:4], "little") == len(old)
    assert read_listpack(old) == read_listpack(new) == [b"f", AMBIGUOUS, 5, AMBIGUOUS_LONGER, b"g"]
    assert bytes(Listpack.from_bytes(old)) == new
    assert with_old_backlens(old) == old


def test_neighbours_of_the_three_sizes_are_the_same_to_all_servers() -> None:
    for size in (16382, 16384, 2097150, 2097152):
        new = bytes(packed(b"x" * (size - 5)))
        assert with_old_backlens(new) == new


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([AMBIGUOUS, b"a", 5, b"x" * 200])), max_size=8))
@settings(max_examples=50)
def test_both_generations_may_stand_in_one_listpack(elements: list[tuple[bool, Value]]) -> None:
    raw = b""
    for old, value in elements:
        body, backlen = body_and_backlen(value)
        raw += body + (backlen_of(len(body), extra=1) if old and len(body) in DOUBLE_WIDTHS else backlen)
    mixed = sealed(raw, len(elements))
    assert agree(mixed)
    new = bytes(packed(*(value for _, value in elements)))
    assert bytes(Listpack.from_bytes(mixed)) == new
    assert with_old_backlens(mixed) == with_old_backlens(new)


@pytest.mark.parametrize("size", [1, 127, 128, 16382, 16384])
def test_a_wider_backlen_is_well_formed_at_no_other_size(size: int) -> None:
    head = 0 if size == 1 else 1 if size < 65 else 2 if size < 4098 else 5
    body = bytes(packed(b"x" * (size - head)))[6 : 6 + size] if head else b"\x05"
    assert len(body) == size
    assert agree(sealed(body + backlen_of(size), 1))
    assert not agree(sealed(body + backlen_of(size, extra=1), 1))


# --- the validator ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        "",
        "ff",
        "07 00 00 00 00 00",
        "06 00 00 00 00 00",
        "07 00 00 00 00 00 fe",
        "08 00 00 00 00 00 ff",
        "06 00 00 00 00 00 ff",
        "07 00 00 00 01 00 ff",
        "08 00 00 00 00 00 ff ff",
        "08 00 00 00 01 00 05 ff",
        "09 00 00 00 01 00 05 02 ff",
        "09 00 00 00 02 00 05 01 ff",
        "09 00 00 00 00 00 05 01 ff",
        "0a 00 00 00 01 00 05 00 81 ff",
        "09 00 00 00 01 00 f5 01 ff",
        "09 00 00 00 01 00 fe 01 ff",
        "09 00 00 00 01 00 ff 01 ff",
        "08 00 00 00 01 00 e0 ff",
        "08 00 00 00 01 00 f0 ff",
        "0b 00 00 00 01 00 f0 ff ff ff ff",
        "0c 00 00 00 01 00 f0 ff ff ff ff ff",
        "0d 00 00 00 01 00 f0 fb ff ff ff 01 ff",
        "09 00 00 00 01 00 bf 01 ff",
        "0a 00 00 00 01 00 f4 00 09 ff",
        "ff ff ff ff 00 00 ff",
        "00 00 00 00 00 00 ff",
    ],
)
def test_a_lie_in_the_bytes_is_found(data: str) -> None:
    assert not agree(bytes.fromhex(data))


@pytest.mark.parametrize(
    "data", ["09 00 00 00 01 00 80 01 ff", "0b 00 00 00 01 00 e0 00 02 ff", "0e000000 0100 f000000000 05 ff"]
)
def test_only_sizes_and_backlens_are_judged_not_whether_an_encoding_is_the_shortest(data: str) -> None:
    raw = bytes.fromhex(data)
    assert agree(len(raw).to_bytes(4, "little") + raw[4:])


def random_listpack(dice: random.Random) -> bytes:
    """A listpack of either generation, its encodings not always the shortest."""
    raw = b""
    count = dice.choice([0, 1, 2, 3, 5, 8, 20])
    for _ in range(count):
        size = dice.choice([0, 1, 2, 5, 62, 63, 64, 123, 124, 125, 126, 200, 4095, 4096])
        if dice.random() < 0.01:
            size = dice.choice([16377, 16378, 16379])
        text = dice.randbytes(size)
        body = dice.choice(
            [
                bytes([dice.randrange(128)]),
                bytes([0x80 | len(text[:63])]) + text[:63],
                bytes([0xC0 | dice.randrange(32), dice.randrange(256)]),
                bytes([0xE0 | len(text[:4095]) >> 8, len(text[:4095]) & 255]) + text[:4095],
                b"\xf0" + len(text).to_bytes(4, "little") + text,
                b"\xf1" + dice.randbytes(2),
                b"\xf2" + dice.randbytes(3),
                b"\xf3" + dice.randbytes(4),
                b"\xf4" + dice.randbytes(8),
            ]
        )
        raw += body + backlen_of(len(body), extra=int(len(body) in DOUBLE_WIDTHS and dice.random() < 0.5))
    return sealed(raw, 65535 if dice.random() < 0.1 else count)


def flip_bits(dice: random.Random, data: bytearray) -> None:
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        at = dice.randrange(6, len(data)) if dice.random() < 0.8 else dice.randrange(len(data))
        data[at] ^= 1 << dice.randrange(8)


def set_bytes(dice: random.Random, data: bytearray) -> None:
    """Bytes that mean much, near places where they do."""
    telling = [0, 1, 2, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xDF, 0xE0, 0xEF, 0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xFE, 0xFF]
    for _ in range(dice.choice([1, 1, 2, 4])):
        data[dice.randrange(len(data))] = dice.choice(telling)


def truncate(dice: random.Random, data: bytearray) -> None:
    del data[dice.randrange(len(data)) :]


def cut_out(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice([1, 1, 2, 3, 9])]


def put_in(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.randbytes(dice.choice([1, 1, 2, 3, 9]))


def repeat(dice: random.Random, data: bytearray) -> None:
    start, at = dice.randrange(len(data)), dice.randrange(len(data) + 1)
    data[at:at] = data[start : start + dice.randrange(1, 20)]


MUTATIONS: list[Callable[[random.Random, bytearray], None]] = [flip_bits, set_bytes, truncate, cut_out, put_in, repeat]


@pytest.mark.slow
def test_the_validator_agrees_with_an_obvious_one_on_every_kind_of_damage() -> None:
    rounds = 600_000 if LONG else 60_000
    dice = random.Random(20240501)
    good = bad = 0
    for _ in range(rounds):
        data = bytearray(random_listpack(dice))
        dice.choice(MUTATIONS)(dice, data)
        if dice.random() < 0.7 and len(data) >= 6:
            data[:4] = len(data).to_bytes(4, "little")  # so that the walk is reached
            if dice.random() < 0.5:
                data[4:6] = b"\xff\xff"
            if dice.random() < 0.5:
                data[-1] = 0xFF
        if agree(bytes(data)):
            good += 1
        else:
            bad += 1
    assert good > rounds // 20
    assert bad > rounds // 4


def test_the_validator_agrees_on_undamaged_listpacks() -> None:
    dice = random.Random(5)
    for _ in range(20_000 if LONG else 600):
        data = random_listpack(dice)
        assert agree(data)
        assert read_listpack(with_old_backlens(data)) == read_listpack(data)
        assert read_listpack(bytes(Listpack.from_bytes(data))) == read_listpack(data)


@pytest.mark.slow
@given(st.binary(max_size=40), st.booleans())
@settings(max_examples=20_000 if LONG else 1000)
def test_the_validator_agrees_on_random_bytes_in_the_shape_of_a_listpack(inner: bytes, counted: bool) -> None:
    agree(sealed(inner, 65535 if counted else len(inner) // 2))


@given(st.lists(st.integers(0xE0, 0xFF), min_size=1, max_size=6).map(bytes), st.binary(max_size=6))
def test_no_head_makes_the_validator_read_past_the_end(head: bytes, rest: bytes) -> None:
    """Heads that promise more than is there, with the end of the buffer right behind them."""
    for inner in (head, head + rest, rest + head):
        agree(sealed(inner, 65535))


def test_every_truncation_of_a_listpack_is_refused() -> None:
    data = bytes(packed(1, b"abc", 300, b"x" * 200, 10**12, b"y" * 64))
    for size in range(len(data)):
        assert not agree(data[:size])
        if size >= 7:
            agree(size.to_bytes(4, "little") + data[4 : size - 1] + b"\xff")
