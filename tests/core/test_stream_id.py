"""Stream IDs: what is read as one, how they are ordered, and what follows the last; redis-server has the last word."""

import copy
import pickle
import random
from typing import Any

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.errors import (
    HeadraceError,
    InvalidInterval,
    InvalidStreamID,
    StreamExhausted,
    StreamIDTooSmall,
)
from headrace.core.stream import Stream
from headrace.core.stream_id import (
    MAX_ID,
    MIN_ID,
    StreamID,
    new_id,
    parse_lax,
    parse_range_end,
    parse_range_start,
)
from support.campaign import LONG

TOP = 2**64 - 1

numbers = st.one_of(
    st.sampled_from([0, 1, 9, 10, 2**32, 2**63 - 1, 2**63, TOP - 1, TOP]),
    st.integers(0, TOP),
)
ids = st.builds(StreamID, numbers, numbers)


# --- what is read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ms", "seq"),
    [
        ("0-0", 0, 0),
        ("1526919030474-55", 1526919030474, 55),
        ("0-1", 0, 1),
        (f"{2**63 - 1}-{2**63 - 1}", 2**63 - 1, 2**63 - 1),
        (f"{2**63}-{2**63}", 2**63, 2**63),
        (f"{TOP}-{TOP}", TOP, TOP),
        (f"{TOP - 1}-{TOP - 1}", TOP - 1, TOP - 1),
    ],
)
def test_both_parts_reach_from_0_to_the_greatest_64_bit_number(text: str, ms: int, seq: int) -> None:
    assert StreamID.parse(text) == StreamID(ms, seq)
    assert StreamID.parse(text.encode()) == StreamID(ms, seq)
    assert str(StreamID(ms, seq)) == text
    assert bytes(StreamID(ms, seq)) == text.encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007-0010", StreamID(7, 10)),
        ("00-00", StreamID(0, 0)),
        ("+7-+8", StreamID(7, 8)),
        (" 7- 8", StreamID(7, 8)),
        ("\t\n\v\f\r 7-\t\n\v\f\r 8", StreamID(7, 8)),
        (" +007- +008", StreamID(7, 8)),
        ("0" * 100 + "5-0", StreamID(5, 0)),
        ("1--0", StreamID(1, 0)),
        ("1-+0", StreamID(1, 0)),
        ("1--00", StreamID(1, 0)),
        ("1--9223372036854775809", StreamID(1, 9223372036854775807)),
        (f"1--{TOP}", StreamID(1, 1)),
        ("1- -1", StreamID(1, TOP)),
        ("1--01", StreamID(1, TOP)),
    ],
)
def test_what_is_not_canonical_is_read_as_c_reads_it(text: str, value: StreamID) -> None:
    assert StreamID.parse(text) == value
    assert parse_lax(text) == value
    assert parse_range_start(text) == value
    assert parse_range_end(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+",
        "--",
        "5-",
        "-5",
        "-1-1",
        "*",
        "1-*",
        "$",
        ">",
        "(",
        "(1-1",
        "abc",
        "1-abc",
        "abc-1",
        "1-1-1",
        "1-1x",
        "1x-1",
        "1 -1",
        "1-1 ",
        "1.0-1",
        "1e3-1",
        "0x10-1",
        "1_000-1",
        " ",
        "1- ",
        " -1",
        "++1-1",
        "+ 1-1",
        "1-+",
        "1--",
        "1--1",
        "1--9223372036854775808",
        "1---1",
        "1--18446744073709551616",
        f"{TOP + 1}-0",
        f"0-{TOP + 1}",
        f"{10**30}-0",
        "\N{ARABIC-INDIC DIGIT ONE}-1",
        "\0",
        "\0001-1",
        "-\0",
        "1-\0005",
    ],
)
def test_what_is_no_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidStreamID, match="is not a stream ID"):
        StreamID.parse(text)


def test_a_missing_sequence_number_is_what_the_caller_says() -> None:
    assert StreamID.parse("5") == StreamID(5, 0)
    assert StreamID.parse("5", missing_seq=TOP) == StreamID(5, TOP)
    assert StreamID.parse("5", 7) == StreamID(5, 7)
    assert StreamID.parse("5-1", 7) == StreamID(5, 1)
    assert parse_lax("5") == StreamID(5, 0)
    assert parse_lax("5", TOP) == StreamID(5, TOP)
    assert parse_range_start("5") == StreamID(5, 0)
    assert parse_range_end("5") == StreamID(5, TOP)


def test_a_nul_byte_ends_the_text() -> None:
    assert StreamID.parse(b"1-1\0zzz") == StreamID(1, 1)
    assert StreamID.parse(b"1\0-9", 4) == StreamID(1, 4)
    assert parse_lax(b"-\0x") == MIN_ID
    assert parse_lax(b"+\0x") == MAX_ID
    assert parse_range_start(b"(1-1\0x") == StreamID(1, 2)
    assert new_id(b"1-*\0x", MIN_ID, 9) == StreamID(1, 0)
    for text in (b"\0", b"\0001-1", b"1-\0001"):
        with pytest.raises(InvalidStreamID):
            StreamID.parse(text)


def test_a_text_has_127_bytes_at_most() -> None:
    assert StreamID.parse("0" * 124 + "1-2") == StreamID(1, 2)
    assert StreamID.parse(b"1-2\0" + b"x" * 123) == StreamID(1, 2)
    for text in ("0" * 125 + "1-2", "1-2\0" + "x" * 124, " " * 128, "9" * 100_000):
        with pytest.raises(InvalidStreamID):
            StreamID.parse(text)


def test_the_bracket_of_an_exclusive_bound_does_not_count_against_the_127_bytes() -> None:
    assert parse_range_start("(" + "0" * 124 + "1-2") == StreamID(1, 3)
    with pytest.raises(InvalidStreamID):
        parse_range_start("(" + "0" * 125 + "1-2")


def test_only_the_lax_reader_knows_the_ends_of_the_stream() -> None:
    assert parse_lax("-") == parse_range_start("-") == parse_range_end("-") == MIN_ID
    assert parse_lax("+") == parse_range_start("+") == parse_range_end("+") == MAX_ID
    for text in ("-", "+"):
        with pytest.raises(InvalidStreamID):
            StreamID.parse(text)
        with pytest.raises(InvalidStreamID):
            parse_lax(text + text)


def test_an_exclusive_start_is_the_id_after() -> None:
    assert parse_range_start("(5") == StreamID(5, 1)
    assert parse_range_start("(5-9") == StreamID(5, 10)
    assert parse_range_start(f"(5-{TOP}") == StreamID(6, 0)
    with pytest.raises(InvalidInterval, match="nothing lies after"):
        parse_range_start(f"({TOP}-{TOP}")


def test_an_exclusive_end_is_the_id_before() -> None:
    assert parse_range_end("(5") == StreamID(5, TOP - 1)
    assert parse_range_end("(5-9") == StreamID(5, 8)
    assert parse_range_end("(5-0") == StreamID(4, TOP)
    assert parse_range_end("(0") == StreamID(0, TOP - 1)
    with pytest.raises(InvalidInterval, match="nothing lies before"):
        parse_range_end("(0-0")


@pytest.mark.parametrize("text", ["(", "(-", "(+", "((1-1", "( ", "1-1(", "(*", "(\0001"])
def test_an_exclusive_bound_is_read_strictly(text: str) -> None:
    for read in (parse_range_start, parse_range_end):
        with pytest.raises(InvalidStreamID):
            read(text)


@pytest.mark.parametrize("wrong", [None, 5, 1.5, bytearray(b"1-1"), [b"1-1"], StreamID(1, 1)])
def test_the_text_of_an_id_is_str_or_bytes(wrong: Any) -> None:
    for read in (StreamID.parse, parse_lax, parse_range_start, parse_range_end):
        with pytest.raises(TypeError):
            read(wrong)
    with pytest.raises(TypeError):
        new_id(wrong, MIN_ID, 0)


@given(ids)
def test_what_is_written_reads_back(id: StreamID) -> None:
    assert StreamID.parse(str(id)) == StreamID.parse(bytes(id)) == parse_lax(str(id)) == id
    assert str(id) == f"{id.ms}-{id.seq}"
    assert bytes(id) == str(id).encode()
    assert repr(id) == f"StreamID({id.ms}, {id.seq})"
    assert eval(repr(id)) == id  # noqa: S307 - that is what a repr is for


# --- order -----------------------------------------------------------------------------------------------------


@given(ids, ids)
@example(StreamID(1, TOP), StreamID(2, 0))
@example(StreamID(2**63 - 1, 0), StreamID(2**63, 0))
@example(StreamID(5, 2**63 - 1), StreamID(5, 2**63))
@example(StreamID(5, 5), StreamID(5, 5))
def test_order_is_that_of_the_pair_of_numbers_and_of_the_key_bytes(a: StreamID, b: StreamID) -> None:
    pair_a, pair_b = (a.ms, a.seq), (b.ms, b.seq)
    assert (a < b) == (pair_a < pair_b) == (a.key < b.key)
    assert (a <= b) == (pair_a <= pair_b) == (a.key <= b.key)
    assert (a > b) == (pair_a > pair_b) == (a.key > b.key)
    assert (a >= b) == (pair_a >= pair_b) == (a.key >= b.key)
    assert (a == b) == (pair_a == pair_b) == (a.key == b.key)
    assert (a != b) == (pair_a != pair_b)
    assert (hash(a) == hash(b)) or a != b


@given(ids)
def test_a_key_is_both_numbers_big_endian(id: StreamID) -> None:
    assert id.key == id.ms.to_bytes(8, "big") + id.seq.to_bytes(8, "big")
    assert StreamID.from_key(id.key) == id


@pytest.mark.parametrize("size", [0, 1, 15, 17, 32])
def test_a_key_has_16_bytes(size: int) -> None:
    with pytest.raises(InvalidStreamID, match=f"16 bytes, not {size}"):
        StreamID.from_key(bytes(size))


@given(ids)
def test_successor_and_predecessor_are_the_neighbours(id: StreamID) -> None:
    position = id.ms << 64 | id.seq
    if id != MAX_ID:
        after = id.successor()
        assert after.ms << 64 | after.seq == position + 1
        assert after.predecessor() == id
    if id != MIN_ID:
        before = id.predecessor()
        assert before.ms << 64 | before.seq == position - 1
        assert before.successor() == id


def test_the_sequence_number_carries_into_the_millisecond() -> None:
    assert StreamID(5, TOP).successor() == StreamID(6, 0)
    assert StreamID(6, 0).predecessor() == StreamID(5, TOP)


def test_the_first_and_the_last_id_have_one_neighbour_each() -> None:
    assert (MIN_ID.ms, MIN_ID.seq, MAX_ID.ms, MAX_ID.seq) == (0, 0, TOP, TOP)
    with pytest.raises(InvalidInterval):
        MAX_ID.successor()
    with pytest.raises(InvalidInterval):
        MIN_ID.predecessor()


def test_an_id_equals_only_an_id() -> None:
    id = StreamID(1, 1)
    for other in ("1-1", b"1-1", (1, 1), 1, None):
        assert id != other
        assert (id == other) is False
        for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
            assert getattr(id, compare)(other) is NotImplemented
    with pytest.raises(TypeError):
        id < (1, 2)  # type: ignore[operator] # noqa: B015 - it is the comparison that raises


# --- an immutable value ----------------------------------------------------------------------------------------


def test_an_id_cannot_be_changed() -> None:
    id = StreamID(1, 2)
    for name in ("ms", "seq", "key", "colour"):
        with pytest.raises(AttributeError):
            setattr(id, name, 5)
        with pytest.raises(AttributeError):
            delattr(id, name)
    assert (id.ms, id.seq) == (1, 2)


def test_ids_cannot_be_subclassed() -> None:
    with pytest.raises(TypeError):
        type("Mine", (StreamID,), {})


@given(ids)
def test_a_copy_and_a_pickle_are_the_same_id(id: StreamID) -> None:
    assert copy.copy(id) == copy.deepcopy(id) == id
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(id, protocol))  # noqa: S301 - our own bytes
        assert again == id
        assert hash(again) == hash(id)


def test_ids_serve_as_keys_of_a_dict() -> None:
    counts = {StreamID(ms, seq): (ms, seq) for ms in range(30) for seq in range(30)}
    assert len(counts) == 900
    assert all(counts[StreamID.parse(f"{ms}-{seq}")] == (ms, seq) for ms in range(30) for seq in range(30))


@pytest.mark.parametrize(("ms", "seq"), [(-1, 0), (0, -1), (TOP + 1, 0), (0, TOP + 1), (10**40, 0)])
def test_an_id_is_not_made_of_numbers_out_of_range(ms: int, seq: int) -> None:
    with pytest.raises(InvalidStreamID, match=f"not {ms} and {seq}"):
        StreamID(ms, seq)


@pytest.mark.parametrize("wrong", ["1", b"1", 1.5, None])
def test_an_id_is_made_of_numbers(wrong: Any) -> None:
    with pytest.raises(TypeError):
        StreamID(wrong)
    with pytest.raises(TypeError):
        StreamID(1, wrong)


def test_the_sequence_number_of_a_new_id_is_0_unless_given() -> None:
    assert StreamID(5) == StreamID(5, 0)


def test_every_refusal_is_a_headrace_error_and_a_value_error() -> None:
    for refusal in (InvalidStreamID, InvalidInterval, StreamIDTooSmall):
        assert issubclass(refusal, HeadraceError)
        assert issubclass(refusal, ValueError)
    assert issubclass(StreamExhausted, HeadraceError)


# --- the next ID -----------------------------------------------------------------------------------------------


@given(ids, numbers)
def test_star_is_the_clock_or_the_successor_and_never_goes_back(last: StreamID, now: int) -> None:
    if last == MAX_ID:
        with pytest.raises(StreamExhausted):
            new_id("*", last, now)
        return
    given_id = new_id("*", last, now)
    assert given_id > last
    assert given_id == (StreamID(now, 0) if now > last.ms else last.successor())


def test_a_clock_that_jumps_back_does_not_take_the_stream_with_it() -> None:
    last = MIN_ID
    clock = [1000, 1000, 1000, 999, 0, 500, 1001, 1001, 3, TOP, TOP, 5]
    produced = []
    for now in clock:
        last = new_id("*", last, now)
        produced.append(str(last))
    assert produced[:9] == ["1000-0", "1000-1", "1000-2", "1000-3", "1000-4", "1000-5", "1001-0", "1001-1", "1001-2"]
    assert produced[9:] == [f"{TOP}-0", f"{TOP}-1", f"{TOP}-2"]


def test_star_carries_into_the_next_millisecond_when_one_is_full() -> None:
    assert new_id("*", StreamID(10, TOP), 10) == StreamID(11, 0)
    assert new_id("*", StreamID(10, TOP), 3) == StreamID(11, 0)
    assert new_id("*", StreamID(TOP, TOP - 1), 3) == MAX_ID


def test_star_on_a_new_stream_at_time_0_is_the_smallest_valid_id() -> None:
    assert new_id("*", MIN_ID, 0) == StreamID(0, 1)


@given(ids, numbers)
def test_ms_star_is_the_next_free_number_of_that_millisecond(last: StreamID, ms: int) -> None:
    request = f"{ms}-*"
    if last == MAX_ID:
        with pytest.raises(StreamExhausted):
            new_id(request, last, 0)
    elif ms < last.ms or (ms == last.ms and last.seq == TOP):
        with pytest.raises(StreamIDTooSmall):
            new_id(request, last, 0)
    else:
        assert new_id(request, last, 0) == StreamID(ms, last.seq + 1 if ms == last.ms else 0)


def test_ms_star_on_a_new_stream_begins_at_0_1() -> None:
    assert new_id("0-*", MIN_ID, 99) == StreamID(0, 1)
    assert new_id("5-*", MIN_ID, 99) == StreamID(5, 0)


def test_ms_star_reads_its_millisecond_like_any_other() -> None:
    assert new_id(f"{TOP}-*", MIN_ID, 0) == StreamID(TOP, 0)
    assert new_id(" +007-*", MIN_ID, 0) == StreamID(7, 0)


@pytest.mark.parametrize(
    "request_text", ["**", "*-1", "*-*", "1-**", "1-* ", "1- *", "1-*1", "-*", "*1", " *", "*x", "-", "+"]
)
def test_a_star_out_of_place_is_no_id(request_text: str) -> None:
    with pytest.raises(InvalidStreamID):
        new_id(request_text, MIN_ID, 5)


@given(ids, ids)
def test_an_explicit_id_must_be_greater_than_the_last(last: StreamID, wanted: StreamID) -> None:
    if last == MAX_ID:
        with pytest.raises(StreamExhausted):
            new_id(str(wanted), last, 0)
    elif wanted > last:
        assert new_id(str(wanted), last, 0) == wanted
    else:
        with pytest.raises(StreamIDTooSmall, match=str(last)):
            new_id(str(wanted), last, 0)


@pytest.mark.parametrize("zero", ["0", "0-0", "00-00", "+0"])
def test_0_0_is_never_a_new_id(zero: str) -> None:
    with pytest.raises(StreamIDTooSmall):
        new_id(zero, MIN_ID, 0)


@pytest.mark.parametrize("request_text", ["*", "5-*", "5-5", f"{TOP}-*", f"{TOP}-{TOP}"])
def test_nothing_follows_the_greatest_id(request_text: str) -> None:
    with pytest.raises(StreamExhausted):
        new_id(request_text, MAX_ID, 0)


# --- redis-server as the judge ---------------------------------------------------------------------------------

ALPHABET = [*"0123456789", *"0123456789", "-", "-", "-", "+", " ", "*", "(", "\0", "x", "\t", "\n", "$", ".", "e"]
PARTS = ["0", "1", "5", "007", "+5", " 5", "\t5", "-0", "-1", "*", "", "-", "+", "5 ", "5x", "1e3", "0x1", "5\0", "\0"]
PARTS += [str(2**63 - 1), str(2**63), str(2**63 + 1), str(TOP), str(TOP + 1), str(-(2**63)), str(-(2**63) - 1)]
PARTS += ["-18446744073709551615", "-18446744073709551616", "9" * 19, "9" * 20, "9" * 21, "0" * 30 + "9", "0" * 125]


def nearly_valid_texts(count: int, seed: int) -> list[bytes]:
    """Texts of which about half are IDs: put together of good and bad parts, edited, or of random characters."""
    dice = random.Random(seed)
    texts = [*PARTS, *(f"({part}" for part in PARTS), *(f"{a}-{b}" for a in PARTS for b in PARTS)]
    texts += ["*\0", "*\0x", "**", "1-*\0x", "$", ">", "(-", "(+", "-\0", "+\0", "(", "((1", "(\0"]
    texts += ["0" * size + "1-2" for size in range(120, 130)] + ["(" + "0" * size + "1-2" for size in range(120, 130)]
    while len(texts) < count:
        kind = dice.randrange(3)
        if kind == 0:
            text = "".join(dice.choices(ALPHABET, k=dice.randrange(12)))
        else:
            text = f"{dice.getrandbits(dice.randrange(1, 66))}-{dice.getrandbits(dice.randrange(1, 66))}"
            for _ in range(dice.randrange(3)):
                at = dice.randrange(len(text) + 1)
                text = text[:at] + dice.choice(ALPHABET) + text[at + dice.randrange(2) :]
            if kind == 2:
                text = dice.choice(["(", "", " ", "+", "0"]) + text
        texts.append(text)
    return [text.encode("latin-1") for text in texts]


def answers(server: redis.Redis, calls: list[tuple[object, ...]]) -> list[object]:
    pipeline = server.pipeline(transaction=False)
    for call in calls:
        pipeline.execute_command(*call)
    replies: list[object] = pipeline.execute(raise_on_error=False)
    return replies


def kind_of(error: Exception) -> str:
    text = str(error)
    for part, kind in [
        ("Invalid stream ID", "InvalidStreamID"),
        ("start ID for the interval", "InvalidInterval"),
        ("end ID for the interval", "InvalidInterval"),
        ("greater than 0-0", "StreamIDTooSmall"),
        ("equal or smaller", "StreamIDTooSmall"),
        ("exhausted the last possible ID", "StreamExhausted"),
    ]:
        if part in text:
            return kind
    raise AssertionError(f"redis said {text!r}")


def test_redis_takes_and_refuses_the_same_new_ids(redis_server: redis.Redis) -> None:
    """Each text as the ID of the first entry of a stream; where the clock does not decide, the ID is the same too."""
    texts = nearly_valid_texts(50_000 if LONG else 4000, seed=1)
    replies = answers(redis_server, [("XADD", f"s{i}", text, "f", "v") for i, text in enumerate(texts)])
    taken = 0
    for text, reply in zip(texts, replies, strict=True):
        try:
            mine: object = bytes(new_id(text, MIN_ID, 77))
        except HeadraceError as error:
            mine = type(error).__name__
        try:
            in_a_stream: object = bytes(Stream().append((b"f", b"v"), text, 77))
        except HeadraceError as error:
            in_a_stream = type(error).__name__
        assert mine == in_a_stream, text
        if isinstance(reply, Exception):
            assert mine == kind_of(reply), text
        else:
            assert mine == (b"77-0" if text.split(b"\0")[0] == b"*" else reply), text
            taken += 1
    assert len(texts) // 5 < taken < len(texts) * 4 // 5


@pytest.mark.parametrize("last", ["5-5", "1-18446744073709551615", "18446744073709551615-18446744073709551615"])
def test_redis_takes_and_refuses_the_same_ids_after_a_last_one(redis_server: redis.Redis, last: str) -> None:
    texts = [text for text in nearly_valid_texts(900, seed=2) if text.split(b"\0")[0] != b"*"]
    calls: list[tuple[object, ...]] = []
    for i, text in enumerate(texts):
        calls += [("XADD", f"s{i}", last, "f", "v"), ("XADD", f"s{i}", text, "f", "v")]
    replies = answers(redis_server, calls)[1::2]
    for text, reply in zip(texts, replies, strict=True):
        try:
            mine: object = bytes(new_id(text, StreamID.parse(last), 0))
        except HeadraceError as error:
            mine = type(error).__name__
        # Redis looks at 0-0 before it looks at the stream, and for a full millisecond it gives an unrelated message.
        if isinstance(reply, Exception) and "greater than 0-0" in str(reply):
            assert mine in ("StreamIDTooSmall", "StreamExhausted"), text
        elif isinstance(reply, Exception) and "too large" in str(reply):
            assert mine == "StreamIDTooSmall", text
        else:
            assert mine == (kind_of(reply) if isinstance(reply, Exception) else reply), text


def test_redis_reads_the_same_range_bounds(redis_server: redis.Redis) -> None:
    """Which entries of a stream lie behind a start and before an end tells what the bounds were read as."""
    marks = sorted({0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 1000, 2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1, TOP - 1, TOP})
    held = [StreamID(ms, seq) for ms in marks for seq in marks if (ms, seq) != (0, 0)]
    answers(redis_server, [("XADD", "s", bytes(id), "f", "v") for id in held])
    texts = nearly_valid_texts(30_000 if LONG else 1300, seed=3)
    starts = answers(redis_server, [("XRANGE", "s", text, "+", "COUNT", "1") for text in texts])
    ends = answers(redis_server, [("XREVRANGE", "s", text, "-", "COUNT", "1") for text in texts])
    good = 0
    for text, start, end in zip(texts, starts, ends, strict=True):
        try:
            bound = parse_range_start(text)
            mine: object = next((bytes(id) for id in held if id >= bound), None)
            good += 1
        except HeadraceError as error:
            mine = type(error).__name__
        assert mine == first_of(start), text
        try:
            bound = parse_range_end(text)
            mine = next((bytes(id) for id in reversed(held) if id <= bound), None)
        except HeadraceError as error:
            mine = type(error).__name__
        assert mine == first_of(end), text
    assert good > len(texts) // 5


def first_of(reply: object) -> object:
    if isinstance(reply, Exception):
        return kind_of(reply)
    assert isinstance(reply, list)
    return reply[0][0] if reply else None
