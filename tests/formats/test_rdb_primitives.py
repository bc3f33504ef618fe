"""RDB lengths, strings and times: both ways, in every form, and in exchange with a live Redis."""

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.dump import open_payload, seal
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import INT8, LZF, RdbReader, RdbWriter

integer_texts = st.integers(-(2**33), 2**33).map(lambda number: b"%d" % number)
strings = st.binary(max_size=100) | integer_texts | st.binary(min_size=1, max_size=5).map(lambda piece: piece * 30)


def written_length(value: int) -> bytes:
    writer = RdbWriter()
    writer.length(value)
    return writer.getvalue()


def written_string(text: bytes | bytearray | memoryview, *, compress: bool = False) -> bytes:
    writer = RdbWriter(compress=compress)
    writer.string(text)
    return writer.getvalue()


LENGTHS = {
    0: "00",
    63: "3f",
    64: "4040",
    16383: "7fff",
    16384: "8000004000",
    2**32 - 1: "80ffffffff",
    2**32: "810000000100000000",
    2**64 - 1: "81ffffffffffffffff",
}


@pytest.mark.parametrize(("value", "form"), LENGTHS.items())
def test_a_length_takes_its_shortest_form(value: int, form: str) -> None:
    assert written_length(value).hex() == form
    assert RdbReader(bytes.fromhex(form)).length() == value


@pytest.mark.parametrize("form", ["07", "4007", "8000000007", "810000000000000007"])
def test_a_length_is_read_in_any_form(form: str) -> None:
    reader = RdbReader(bytes.fromhex(form))
    assert reader.length() == 7
    assert reader.remaining == 0


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_that_is_no_length_is_refused_and_nothing_written(value: int) -> None:
    writer = RdbWriter()
    with pytest.raises(ValueError, match=str(value)):
        writer.length(value)
    assert len(writer) == 0


INTEGERS = {
    b"0": "c000",
    b"-1": "c0ff",
    b"127": "c07f",
    b"-128": "c080",
    b"128": "c18000",
    b"-32768": "c10080",
    b"32768": "c200800000",
    b"2147483647": "c2ffffff7f",
    b"-2147483648": "c200000080",
}


@pytest.mark.parametrize(("text", "form"), INTEGERS.items())
def test_the_text_of_an_integer_is_stored_as_the_integer(text: bytes, form: str) -> None:
    assert written_string(text).hex() == form
    assert RdbReader(bytes.fromhex(form)).string() == text


@pytest.mark.parametrize(
    "text", [b"", b"-", b"-0", b"00", b"007", b"+7", b" 7", b"7\n", b"1_0", b"2147483648", b"-2147483649", "٣".encode()]
)
def test_text_that_an_integer_would_not_print_as_stays_plain(text: bytes) -> None:
    assert written_string(text) == bytes([len(text)]) + text


def test_only_strings_over_20_bytes_are_compressed() -> None:
    assert written_string(b"a" * 20, compress=True)[0] == 20
    assert written_string(b"a" * 21, compress=True).hex() == "c3051500" + "61e00b00"
    assert written_string(b"a" * 21)[0] == 21


def test_a_string_that_does_not_shrink_stays_plain() -> None:
    text = bytes(range(60))
    assert written_string(text, compress=True) == bytes([60]) + text


@given(st.lists(strings), st.booleans())
def test_strings_round_trip_one_after_another(texts: list[bytes], compress: bool) -> None:
    writer = RdbWriter(compress=compress)
    for text in texts:
        writer.string(text)
    reader = RdbReader(writer.getvalue())
    assert [reader.string() for _ in texts] == texts
    assert reader.remaining == 0


@given(strings)
def test_every_kind_of_buffer_is_written_and_read_alike(text: bytes) -> None:
    form = written_string(text)
    assert written_string(bytearray(text)) == written_string(memoryview(text)) == form
    assert RdbReader(bytearray(form)).string() == RdbReader(memoryview(form)).string() == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_times_are_64_bits_little_endian(time: int) -> None:
    writer = RdbWriter()
    writer.milliseconds(time)
    assert writer.getvalue() == time.to_bytes(8, "little", signed=True)
    assert RdbReader(writer.getvalue()).milliseconds() == time


def test_the_position_moves_over_what_was_read() -> None:
    reader = RdbReader(b"??\x03abc\xc0\x05rest", 2)
    assert (reader.position, reader.remaining) == (2, 10)
    assert reader.string() == b"abc"
    assert (reader.position, reader.remaining) == (6, 6)
    assert reader.length_or_encoding() == (INT8, True)
    assert reader.raw(1) == b"\x05"
    assert reader.raw(4) == b"rest"
    assert (reader.position, reader.remaining) == (12, 0)


@pytest.mark.parametrize("position", [-1, 4])
def test_a_reader_begins_inside_its_bytes(position: int) -> None:
    with pytest.raises(ValueError, match="outside the 3 bytes"):
        RdbReader(b"abc", position)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("", "offset 1: expected a length, but 0 bytes remain"),
        ("40", "offset 1: expected a 14-bit length, but 1 bytes remain"),
        ("80000000", "offset 2: expected a 32-bit length, but 3 bytes remain"),
        ("81" + "00" * 7, "offset 2: expected a 64-bit length, but 7 bytes remain"),
        ("82", "offset 1: expected a length, found byte 0x82"),
        ("bf", "offset 1: expected a length, found byte 0xbf"),
        ("036162", "offset 2: expected 3 bytes, but 2 bytes remain"),
        ("81" + "ff" * 8, "offset 10: expected 18446744073709551615 bytes, but 0 bytes remain"),
        ("c0", "offset 2: expected an integer string, but 0 bytes remain"),
        ("c100", "offset 2: expected an integer string, but 1 bytes remain"),
        ("c2000000", "offset 2: expected an integer string, but 3 bytes remain"),
        ("c4", "offset 1: expected a string, found unknown string encoding 4"),
        ("ff", "offset 1: expected a string, found unknown string encoding 63"),
        ("c3c00101", "offset 2: expected a length, found string encoding 0"),
        ("c30504" + "0061", "offset 4: expected 5 bytes of LZF data, but 2 bytes remain"),
        ("c30204" + "2000", "offset 1: expected an LZF string: LZF data, byte 0"),
        ("c3028040000001" + "0061", "offset 1: expected an LZF string: 2 bytes of LZF data cannot expand to 10737418"),
    ],
)
def test_a_bad_string_is_refused_with_its_offset_and_what_was_expected(form: str, expected: str) -> None:
    reader = RdbReader(b"?" + bytes.fromhex(form), 1)
    with pytest.raises(CorruptPayload) as caught:
        reader.string()
    assert str(caught.value).startswith(expected)


def test_an_encoding_is_no_length() -> None:
    with pytest.raises(CorruptPayload, match=f"offset 0: expected a length, found string encoding {LZF}"):
        RdbReader(b"\xc3").length()


def test_bytes_and_times_past_the_end_are_refused() -> None:
    with pytest.raises(CorruptPayload, match="offset 1: expected 16 bytes, but 3 bytes remain"):
        RdbReader(b"1234", 1).raw(16)
    with pytest.raises(CorruptPayload, match="offset 0: expected a time of 8 bytes, but 7 bytes remain"):
        RdbReader(b"1234567").milliseconds()


@given(st.binary(max_size=40))
def test_any_bytes_are_a_string_or_corrupt(form: bytes) -> None:
    reader = RdbReader(form)
    try:
        reader.string()
    except CorruptPayload:
        return
    assert 0 < reader.position <= len(form)


SHORT_STRINGS = [*INTEGERS, b"", b"-0", b"007", b"+7", b" 7", b"2147483648", b"-2147483649", b"plain text"]
STRINGS = [*SHORT_STRINGS, b"b" * 64, bytes(range(256)), bytes(range(256)) * 80, b"x" * 70000]


def dumped_string(server: redis.Redis, text: bytes) -> bytes:
    """The form that Redis gives this string."""
    server.set("key", text)
    payload = server.dump("key")
    assert payload is not None
    body, _ = open_payload(payload)
    assert body[0] == 0
    return bytes(body[1:])


@pytest.mark.parametrize("compress", [False, True])
def test_redis_restores_the_strings_we_write(redis_server: redis.Redis, compress: bool) -> None:
    for text in STRINGS:
        redis_server.restore("key", 0, seal(b"\x00" + written_string(text, compress=compress), 10), replace=True)
        assert redis_server.get("key") == text


def test_we_read_the_strings_redis_writes(redis_server: redis.Redis) -> None:
    for text in STRINGS:
        reader = RdbReader(dumped_string(redis_server, text))
        assert reader.string() == text
        assert reader.remaining == 0


def test_our_form_of_a_string_is_the_one_redis_chooses(redis_server: redis.Redis) -> None:
    for text in SHORT_STRINGS:
        assert written_string(text, compress=True) == dumped_string(redis_server, text)
