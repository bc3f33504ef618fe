"""RDB files: written in blocks and read back, of every version, with what we cannot hold told, and damaged anywhere."""

import mmap
import random
import struct
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.cold import ColdCache
from headrace.core.entry_log import NodeLimits
from headrace.core.group import Verdict
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.crc64 import crc64
from headrace.formats.errors import CorruptPayload, UnsupportedVersion, WrongChecksum
from headrace.formats.rdb_file import OWN_FIELD, verify_checksum
from headrace.formats.rdb_file_reader import LoadedKey, LoadedLibrary, RdbFileReader, Skipped, UnfinishedStream
from headrace.formats.rdb_file_writer import RdbFileWriter
from support.memory_runs import offload
from support.rdb_samples import FAR_MS, Key, busy_stream, comparable, sample_keys, written

NOW_MS = 1_700_000_000_000
BLOCK = 1 << 20


def sealed(*parts: bytes, version: int = 12) -> bytes:
    """A whole file of what stands between its header and its end."""
    body = b"REDIS%04d" % version + b"".join(parts) + b"\xff"
    return body + struct.pack("<Q", crc64(body)) if version >= 5 else body


def string(text: bytes) -> bytes:
    return b"\x80" + len(text).to_bytes(4, "big") + text


def entry(type_byte: int, key: bytes, value: bytes) -> bytes:
    return bytes([type_byte]) + string(key) + value


def read(data: bytes) -> list[Any]:
    return list(RdbFileReader(data, now_ms=NOW_MS))


def only_key(data: bytes) -> LoadedKey:
    (record,) = read(data)
    assert isinstance(record, LoadedKey)
    return record


TEXT = entry(0, b"k", string(b"v"))


# --- there and back --------------------------------------------------------------------------------------------

texts = st.binary(max_size=40) | st.integers(-(2**40), 2**40).map(lambda number: b"%d" % number)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    stream = Stream(NodeLimits(4096, draw(st.integers(1, 5))))
    for ms in range(1, draw(st.integers(1, 12))):
        stream.append(draw(st.lists(texts, min_size=1, max_size=3)) * 2, StreamID(ms, draw(st.integers(0, 3))))
    group = stream.create_group(draw(texts), b"0")
    group.read_new(b"c", NOW_MS, draw(st.integers(1, 5)))
    stream.trim_to_length(draw(st.integers(0, 12)))
    stream.producers.record(b"p", draw(texts), StreamID(1))
    group.release_ids([b"1-0"], Verdict.FAIL)
    return stream


values = (
    texts
    | st.lists(texts, min_size=1).map(deque)
    | st.sets(texts, min_size=1).map(MemberSet)
    | st.dictionaries(texts, texts, min_size=1)
    | st.dictionaries(texts, st.floats(allow_nan=False), min_size=1).map(
        lambda scores: SortedSet.from_pairs(scores.items())
    )
    | streams()
)
keys = st.builds(Key, st.integers(0, 20), texts, values, st.none() | st.integers(0, 2**62))


@given(st.lists(keys, unique_by=lambda key: (key.db, key.name)), st.booleans(), st.booleans())
def test_what_was_written_is_read(keys: list[Key], compress: bool, own: bool) -> None:
    keys.sort(key=lambda key: key.db)
    loaded = read(written(keys, compress=compress, aux={OWN_FIELD: b"1"} if own else None))
    assert [(*record[:2], comparable(record.value), *record[3:]) for record in loaded] == [
        (key.db, key.name, comparable(key.value), key.expires_ms, None, None) for key in keys
    ]


def read_moving(data: bytes) -> tuple[Stream, int]:
    """Read a file of one stream, whose nodes are moved as soon as others follow them; and in how many steps."""
    cache = ColdCache(1 << 20)
    for steps, record in enumerate(RdbFileReader(data).in_steps(1)):
        if isinstance(record, LoadedKey):
            assert isinstance(record.value, Stream)
            return record.value, steps
        assert isinstance(record, UnfinishedStream)
        offload(record.value, cache, 100)
    raise AssertionError


@given(streams())
def test_a_stream_may_be_moved_while_it_is_read(stream: Stream) -> None:
    found, steps = read_moving(written([Key(0, b"s", stream, None)]))
    assert comparable(found) == comparable(stream)
    assert steps == max(stream.node_count - 1, 0)


def test_a_stream_that_was_moved_while_it_was_read_still_proves_its_first_id() -> None:
    stream = Stream(NodeLimits(4096, 10))
    for ms in range(1, 300):
        stream.append([b"f", b"v"], StreamID(ms, 5))
    body = bytearray(written([Key(0, b"s", stream, None)], compress=False)[:-8])
    state = body.rindex(bytes([0x41, 0x2B, 0x41, 0x2B, 5, 1, 5]))  # length, last ID, first ID
    body[state + 5] = 3
    with pytest.raises(CorruptPayload, match="the first entry is 1-5, but 3-5 was recorded"):
        read_moving(bytes(body) + struct.pack("<Q", crc64(body)))


def test_the_last_access_and_the_auxiliary_fields_are_kept() -> None:
    blocks: list[bytes] = []
    writer = RdbFileWriter(lambda block: blocks.append(bytes(block)), aux={b"ctime": b"1700000000", b"aof-base": b"1"})
    writer.begin()
    writer.select(2, 1, 0)
    writer.key(b"k", b"v", idle_s=77)
    writer.end()
    reader = RdbFileReader(b"".join(blocks))
    assert list(reader) == [LoadedKey(2, b"k", b"v", None, 77, None)]
    assert reader.aux == {b"redis-ver": b"8.10.0", b"redis-bits": b"64", b"ctime": b"1700000000", b"aof-base": b"1"}


@pytest.mark.parametrize(
    ("compatibility", "version", "stream_type", "server"),
    [("auto", 14, 27, b"8.10.0"), ("7.0", 10, 19, b"7.0.0"), ("7.2", 11, 21, b"7.2.0"), ("8.8", 14, 27, b"8.8.0")],
)
def test_the_version_is_that_of_the_servers_it_is_for(
    compatibility: str, version: int, stream_type: int, server: bytes
) -> None:
    data = written([Key(0, b"stream", busy_stream())], compatibility=compatibility)
    reader = RdbFileReader(data)
    assert reader.version == version
    assert bytes([stream_type]) + b"\x06stream" in data
    assert len(list(reader)) == 1
    assert reader.aux[b"redis-ver"] == server


def test_a_server_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"auto or one of 7\.0, 7\.2, 8\.6, 8\.8"):
        RdbFileWriter(print, compatibility="6.0")


def note_size(sizes: list[int], block: bytes | bytearray | memoryview) -> None:
    sizes.append(len(block))


@pytest.mark.slow
def test_no_more_than_a_block_is_held_however_large_a_value_is() -> None:
    stream = Stream()
    for ms in range(1, 40_000):
        stream.append([b"f", b"%d" % ms * 20], StreamID(ms))
    group = stream.create_group(b"g")
    group.read_new(b"c", NOW_MS)
    random_text = bytes(range(256)) * 20_000
    keys = [
        Key(0, b"stream", stream),
        Key(0, b"list", deque(b"%d" % number for number in range(300_000))),
        Key(0, b"large", random_text),
        Key(0, b"set", MemberSet(b"member %d" % number for number in range(100_000))),
        Key(0, b"hash", {b"field %d" % number: b"v" * 20 for number in range(100_000)}),
    ]
    for compress in (True, False):
        sizes: list[int] = []
        writer = RdbFileWriter(partial(note_size, sizes), compress=compress)
        writer.begin()
        writer.select(0, len(keys), 0)
        for key in keys:
            writer.key(key.name, key.value)
        writer.end()
        assert max(sizes) <= 2 * BLOCK
        assert len(sizes) < 2 * sum(sizes) // BLOCK + 10
        loaded = read(written(keys, compress=compress))
        assert [comparable(record.value) for record in loaded] == [comparable(key.value) for key in keys]


def test_what_the_sink_raises_passes_through() -> None:
    def refuse(_: object) -> None:
        raise OSError("the disk is full")

    writer = RdbFileWriter(refuse, compress=False)
    writer.begin()
    with pytest.raises(OSError, match="the disk is full"):
        writer.key(b"k", bytes(2 * BLOCK))


def test_a_file_is_read_where_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "dump.rdb"
    path.write_bytes(written(sample_keys()))
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        assert verify_checksum(view)
        reader = RdbFileReader(view)
        assert len(list(reader)) == len(sample_keys())
        assert reader.position == len(mapped)
        del reader


# --- files of other times --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 16))
def test_every_version_is_read(version: int) -> None:
    data = sealed(b"\xfe\x03", TEXT, version=version)
    assert only_key(data) == LoadedKey(3, b"k", b"v", None, None, None)
    assert verify_checksum(data) == (version >= 5)


def test_an_expiry_may_be_in_seconds() -> None:
    data = sealed(b"\xfe\x00\xfd", struct.pack("<i", 1_234_567), TEXT, TEXT, version=2)
    assert [record.expires_ms for record in read(data)] == [1_234_567_000, None]


def test_what_stands_before_a_key_is_for_that_key_alone() -> None:
    data = sealed(b"\xfc", struct.pack("<q", FAR_MS), b"\xf8\x40\xff", TEXT, b"\xf9\x07", TEXT, TEXT)
    assert [record[3:] for record in read(data)] == [(FAR_MS, 255, None), (None, None, 7), (None, None, None)]


def test_sizes_of_databases_and_slots_are_only_hints() -> None:
    assert only_key(sealed(b"\xfb\x40\xff\x09\xf4\x05\x01\x00", TEXT)).value == b"v"


# --- what we cannot hold ---------------------------------------------------------------------------------------

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
MODULE_NUMBER = sum(ALPHABET.index(letter) << 58 - 6 * at for at, letter in enumerate("ReJSON-RL")) + 3
MODULE_ID = b"\x81" + struct.pack(">Q", MODULE_NUMBER)
MODULE_PARTS = (
    b"\x01\x05" + b"\x02\x40\xff" + b"\x03" + bytes(4) + b"\x04" + bytes(8) + b"\x05" + string(b"x") + b"\x00"
)


def listpack(*elements: int | bytes) -> bytes:
    body = b""
    for element in elements:
        if isinstance(element, bytes):
            coded = bytes([0x80 | len(element)]) + element
        else:
            coded = bytes([element]) if element < 128 else b"\xf4" + element.to_bytes(8, "little")
        body += coded + bytes([len(coded)])
    return struct.pack("<IH", 7 + len(body), len(elements)) + body + b"\xff"


def test_a_value_of_a_module_is_passed_over_and_told() -> None:
    skipped, key = read(sealed(b"\xfe\x02", entry(7, b"doc", MODULE_ID + MODULE_PARTS), TEXT))
    assert isinstance(skipped, Skipped)
    assert (skipped.kind, skipped.db, skipped.key, skipped.offset) == ("module value", 2, b"doc", 11)
    assert str(skipped) == "module value of key 'doc' in database 2 at offset 11: there is no module ReJSON-RL here"
    assert key.value == b"v"


def test_data_and_notes_of_modules_are_passed_over_and_told() -> None:
    notes = b"\xf3\x02" + (b"abcd" + MODULE_PARTS) * 2
    records = read(sealed(b"\xf7", MODULE_ID, b"\x02\x01", MODULE_PARTS, notes, TEXT, TEXT))
    assert [record.kind if isinstance(record, Skipped) else record.key for record in records] == [
        "module data",
        b"k",
        "key metadata",
        b"k",
    ]
    assert records[2].key == b"k"


def test_a_function_library_is_its_code() -> None:
    library, _ = read(sealed(b"\xf5", string(b"#!lua name=lib\nreturn"), TEXT))
    assert library == LoadedLibrary(b"#!lua name=lib\nreturn", 9)


def test_an_empty_collection_is_passed_over_and_told() -> None:
    lists = [entry(1, b"l", b"\x00"), entry(18, b"l", b"\x00")]
    hashes = [entry(4, b"h", b"\x00"), entry(16, b"h", string(listpack())), entry(24, b"h", bytes(9))]
    others = [entry(2, b"s", b"\x00"), entry(5, b"z", b"\x00")]
    *skipped, key = read(sealed(*lists, *hashes, *others, TEXT))
    assert [(record.kind, record.key) for record in skipped] == [
        ("empty value", name) for name in (b"l", b"l", b"h", b"h", b"h", b"s", b"z")
    ]
    assert key.value == b"v"


EARLIER, LATER = NOW_MS - 5, NOW_MS + 5
FIELDS = (b"a", b"1", 0), (b"b", b"2", LATER), (b"c", b"3", EARLIER)


def timed_table(base: int | None) -> bytes:
    out = b"" if base is None else struct.pack("<q", base)
    out += bytes([len(FIELDS)])
    for field, value, time in FIELDS:
        stored = 0 if time == 0 else time if base is None else time - base + 1
        out += b"\x81" + struct.pack(">Q", stored) + string(field) + string(value)
    return out


@pytest.mark.parametrize(
    ("type_byte", "value"),
    [
        (22, timed_table(None)),
        (23, string(listpack(*(part for field in FIELDS for part in field)))),
        (24, timed_table(EARLIER)),
        (25, struct.pack("<q", EARLIER) + string(listpack(*(part for field in FIELDS for part in field)))),
    ],
)
def test_fields_that_expire_are_kept_and_their_times_told(type_byte: int, value: bytes) -> None:
    key, times, expired, after = read(sealed(entry(type_byte, b"h", value), TEXT))
    assert key.value == {b"a": b"1", b"b": b"2"}
    assert (times.kind, times.key) == ("field expiry", b"h")
    assert times.why == "1 fields were to expire, and will not: fields have no expiry here"
    assert (expired.kind, expired.why) == ("expired fields", "1 fields had expired")
    assert after.value == b"v"


def test_a_hash_of_which_every_field_has_expired_is_no_key() -> None:
    (skipped,) = read(sealed(entry(23, b"h", string(listpack(b"a", b"1", EARLIER)))))
    assert isinstance(skipped, Skipped)
    assert skipped.kind == "expired fields"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (b"\xf2\x01", "offset 9: found a template of hashes, which Redis 8.10 writes"),
        (b"\xf6\x01", "offset 9: found a function library as release candidates of Redis 7.0 wrote it"),
        (entry(6, b"k", b""), "offset 9: found a module's value as release candidates of Redis 4.0 wrote it"),
        (entry(99, b"k", b""), "offset 15: expected a type of value, found 99 (in key 'k' of database 0, at offset 9)"),
        (entry(8, b"k", b""), "offset 15: expected a type of value, found 8"),
        (entry(7, b"k", b"\x00\x09"), "offset 17: expected a part of a module's value, found kind 9"),
        (b"\xf7\x00\x03", "offset 11: expected when the module AAAAAAAAA wrote its part, found kind 3"),
    ],
)
def test_what_has_no_known_end_is_refused_with_its_place(part: bytes, expected: str) -> None:
    with pytest.raises(CorruptPayload) as caught:
        read(sealed(part))
    assert str(caught.value).startswith(expected)


# --- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error", "expected"),
    [
        (b"", CorruptPayload, "offset 0: expected an RDB file, which begins with REDIS, found b''"),
        (b"REDIX0010", CorruptPayload, "offset 0: expected an RDB file"),
        (b"REDIS00", CorruptPayload, "offset 7: expected the 9 bytes that begin a file, but it ends here"),
        (b"REDIS00x1", CorruptPayload, "offset 5: expected a version of four digits, found b'00x1'"),
        (b"REDIS0000", CorruptPayload, "offset 5: expected a version"),
        (b"REDIS0016\xff", UnsupportedVersion, "offset 5: expected an RDB version up to 15, found 16"),
        (b"VALKEY080\xff", UnsupportedVersion, r"offset 0: this is a file of Valkey 9 or later \(VALKEY080\)"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(data: bytes, error: type[Exception], expected: str) -> None:
    for check in (read, verify_checksum):
        with pytest.raises(error, match=expected):
            check(data)


def test_a_cut_file_is_told_from_a_changed_one() -> None:
    whole = sealed(TEXT)
    with pytest.raises(CorruptPayload, match=r"offset 22: expected a key or the end mark, but the file ends here"):
        read(whole[:-9])
    with pytest.raises(CorruptPayload, match=r"offset 23: expected the checksum of the file, but 3 bytes remain"):
        read(whole[:-5])
    with pytest.raises(CorruptPayload, match=r"offset 26: the file ends without its end mark"):
        verify_checksum(whole[:-5])
    changed = whole.replace(b"\x01v", b"\x01w")
    for check in (read, verify_checksum):
        with pytest.raises(WrongChecksum, match=r"offset 23: expected CRC .* the file is damaged"):
            check(changed)
    record = next(iter(RdbFileReader(changed, verify=False)))
    assert isinstance(record, LoadedKey)
    assert record.value == b"w"


def test_a_checksum_that_was_not_computed_is_not_compared() -> None:
    data = sealed(TEXT)[:-8] + bytes(8)
    assert not verify_checksum(data)
    assert only_key(data).value == b"v"


def test_commands_may_follow_only_a_preamble() -> None:
    data = sealed(TEXT)
    with pytest.raises(CorruptPayload, match=rf"offset {len(data)}: expected the end of the file, but 4 bytes follow"):
        read(data + b"*1\r\n")
    reader = RdbFileReader(data + b"*1\r\n", preamble=True)
    assert len(list(reader)) == 1
    assert reader.position == len(data)


def file_of_everything() -> bytes:
    """A small file with every type and opcode that is read."""
    stream = Stream(NodeLimits(4096, 3))
    for ms in range(1, 6):
        stream.append([b"f", b"value"], StreamID(ms))
    group = stream.create_group(b"g")
    group.read_new(b"c", NOW_MS, 2)
    group.release_ids([b"1-0"], Verdict.FAIL)
    stream.producers.record(b"p", b"m", StreamID(1))
    ours = written(
        [
            Key(0, b"text", b"abc" * 10, FAR_MS),
            Key(0, b"list", deque([b"a", b"12"])),
            Key(1, b"set", MemberSet([b"a"])),
            Key(1, b"hash", {b"f": b"v"}),
            Key(1, b"sorted", SortedSet.from_pairs([(b"m", 1.5)])),
            Key(1, b"stream", stream),
        ],
        aux={b"ctime": b"1700000000"},
    )
    ziplist = bytes.fromhex("100000000d000000020000016103f2ff")
    others = [
        entry(3, b"z", b"\x02" + string(b"a") + b"\x03" + b"1.5" + string(b"b") + b"\xfe"),
        entry(9, b"h", string(b"\x01\x01a\x01\x02v..\xff")),
        entry(10, b"l", string(ziplist)),
        entry(11, b"s", string(struct.pack("<IIhh", 2, 2, 1, 2))),
        entry(12, b"z", string(ziplist)),
        entry(13, b"h", string(ziplist)),
        entry(14, b"l", b"\x01" + string(ziplist)),
        entry(16, b"h", string(listpack(b"a", 1))),
        entry(17, b"z", string(listpack(b"a", 1))),
        entry(20, b"s", string(listpack(b"a", 1))),
        entry(22, b"h", timed_table(None)),
        entry(23, b"h", string(listpack(b"a", b"1", LATER))),
        entry(24, b"h", timed_table(EARLIER)),
        b"\xf9\x07" + entry(25, b"h", struct.pack("<q", LATER) + string(listpack(b"a", b"1", LATER))),
        entry(7, b"m", MODULE_ID + MODULE_PARTS),
        b"\xf7" + MODULE_ID + b"\x02\x01" + MODULE_PARTS,
        b"\xf5" + string(b"#!lua name=lib\n"),
        b"\xf4\x05\x01\x00",
        b"\xf3\x01abcd" + MODULE_PARTS + TEXT,
    ]
    return sealed(ours[9:-9], *others, version=14)


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    data = file_of_everything()
    assert sum(isinstance(record, LoadedKey) for record in read(data)) == 21
    for at in range(len(data)):
        for change in (1, 2, 4, 8, 16, 32, 64, 128, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= change
            with pytest.raises(CorruptPayload):
                read(bytes(damaged))
        with pytest.raises(CorruptPayload):
            read(data[:at])


@pytest.mark.slow
@pytest.mark.parametrize("field", [b"", b"\xfa" + string(OWN_FIELD) + string(b"1")])
def test_a_file_is_checked_whoever_it_says_has_written_it_and_whatever_its_checksum_says(field: bytes) -> None:
    data = written([Key(0, b"s", busy_stream(), None)], compress=False)[9:-9]
    refused = 0
    for at in range(len(data)):
        body = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        try:
            records = read(sealed(field, body, version=14))
        except CorruptPayload:
            refused += 1
            continue
        for record in records:
            if isinstance(record, LoadedKey):
                assert comparable(record.value) is not None
    assert refused > 1000


@pytest.mark.parametrize("behind", [b"", b"*1\r\n$4\r\nPING\r\n"])
def test_damage_of_a_large_file_is_found_though_its_checksum_is_computed_beside(behind: bytes) -> None:
    keys = [Key(0, b"key %d" % i, random.Random(i).randbytes(1000), None) for i in range(1500)]
    data = written(keys, compress=False) + behind
    assert len(list(RdbFileReader(data, preamble=True))) == 1500
    damaged = bytearray(data)
    damaged[700_000] ^= 0x10
    with pytest.raises(CorruptPayload, match="expected CRC"):
        list(RdbFileReader(bytes(damaged), preamble=True))


@pytest.mark.slow
def test_without_a_checksum_damage_gives_keys_or_is_refused() -> None:
    data = file_of_everything()[:-8] + bytes(8)
    for at in range(9, len(data) - 8):
        for byte in (0, 1, 2, 3, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xC3, 0xF0, 0xFE, 0xFF, data[at] ^ 1, data[at] ^ 0x20):
            damaged = bytearray(data)
            damaged[at] = byte
            try:
                records = read(bytes(damaged))
            except CorruptPayload:
                continue
            for record in records:
                assert isinstance(record, LoadedLibrary | Skipped) or comparable(record.value) is not None


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_refused(body: bytes) -> None:
    with suppress(CorruptPayload):
        read(b"REDIS0012" + body)
