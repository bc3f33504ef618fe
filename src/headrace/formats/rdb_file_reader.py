"""Reads an RDB file of any version, from an mmap or any other buffer: see rdb_file for the layout.

    reader = RdbFileReader(mmap, now_ms=now_ms)
    for record in reader:
        match record:
            case LoadedKey(): …
            case Skipped(): log.warning(str(record))
    # only now are the keys known to be what was saved

What we cannot hold is passed over and told, never left out silently. What cannot even be passed over, because its
length is not known, ends the reading: so does whatever is wrong. No declared size is believed, and nothing is read
behind the end of the buffer.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Final, NamedTuple, NoReturn

from headrace.core.entry_log import NodeLimits
from headrace.core.stream import Stream
from headrace.formats.crc64 import crc64
from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.hash_value import TIMED_HASH_TYPES, TimedHash, read_timed_hash
from headrace.formats.module_value import (
    MODULE,
    MODULE_4_0_RC,
    skip_key_metadata,
    skip_module_aux,
    skip_module_value,
)
from headrace.formats.rdb_file import (
    CHECKSUM,
    FIRST_CHECKSUM_VERSION,
    HEADER_SIZE,
    OWN_FIELD,
    Opcode,
    check_sum,
    read_version,
)
from headrace.formats.rdb_primitives import RdbReader
from headrace.formats.stream_remainder import COPIED, IDENTITY_FIELD, REMAINDER_FIELD, restore_remainder
from headrace.formats.stream_value import (
    REFERRING_STREAM,
    STREAM_TYPES,
    FindRuns,
    read_referring_stream,
    read_stream_in_steps,
)
from headrace.formats.values import Value, read_value

_FIRST_OPCODE: Final = int(min(Opcode))
_IN_STEPS: Final = frozenset(STREAM_TYPES[1:])  # the first says neither the first ID nor what groups have read
_SHOWN: Final = 60
_LARGE: Final = 1 << 20  # bytes from which on a thread pays
_NO_END: Final = {
    MODULE_4_0_RC: "a module's value as release candidates of Redis 4.0 wrote it",
    Opcode.HASH_TEMPLATE: "a template of hashes, which Redis 8.10 writes; turn off hash templates there and save again",
    Opcode.FUNCTION_7_0_RC: "a function library as release candidates of Redis 7.0 wrote it",
}


class LoadedKey(NamedTuple):
    """A key of the file. Its expiry may have passed: that is left to the caller."""

    db: int
    key: bytes
    value: Value
    expires_ms: int | None
    idle_s: int | None
    frequency: int | None


class UnfinishedStream(NamedTuple):
    """A key of which some nodes were read; the rest comes, and then the LoadedKey."""

    db: int
    key: bytes
    value: Stream
    expires_ms: int | None


class LoadedLibrary(NamedTuple):
    """A library of functions: its code, and where it stands."""

    code: bytes
    offset: int


class Skipped(NamedTuple):
    """Something of the file that is not loaded."""

    kind: str
    """One of: module data, module value, key metadata, field expiry, expired fields, empty value."""
    db: int
    key: bytes | None
    offset: int
    why: str

    def __str__(self) -> str:
        """Return the sentence to show to an operator."""
        of_key = "" if self.key is None else f" of key {_shown(self.key)} in database {self.db}"
        return f"{self.kind}{of_key} at offset {self.offset}: {self.why}"


class _Unfinished(NamedTuple):
    stream: Stream


class RdbFileReader:
    """The keys of a file, in its order; to be walked once.

    `limits` are for the nodes of streams that grow later. `now_ms` says which fields of hashes have expired. The
    checksum is compared at the end, unless verify_checksum has been asked before: `verify=False`. A checksum that
    matches proves nothing about who wrote the file, because anyone can compute it: every value is checked, whoever the
    file says has written it. Bytes behind the end are refused, unless the file is a `preamble` that an append-only file
    goes on after. `start` is a `position` between two records, to read on from there; the keys are then said to be of
    database 0 until the next one is chosen. `find_runs` finds what streams refer to; without it, such a stream is
    refused.
    """

    def __init__(
        self,
        source: bytes | bytearray | memoryview,
        limits: NodeLimits | None = None,
        *,
        now_ms: int = 0,
        verify: bool = True,
        preamble: bool = False,
        start: int = HEADER_SIZE,
        find_runs: FindRuns | None = None,
    ) -> None:
        self.version = read_version(source)
        self.aux: dict[bytes, bytes] = {}
        """The auxiliary fields that were read so far; all that concern the file stand before the first key."""
        self.has_checksum = False  # which was compared
        self.key_offset = 0
        """Where the last key stands, from its type on."""
        self._beside: dict[bytes, bytes] = {}  # fields of the stream that comes next
        self._reader = RdbReader(source, start)
        self._limits = limits
        self._find_runs = find_runs
        self._now_ms = now_ms
        self._checksum = _ConcurrentChecksum(self._reader.source) if verify else None
        self._preamble = preamble
        self._db = 0

    @property
    def position(self) -> int:
        """How many bytes have been read; after the last record, where the file ends and something else may begin."""
        return self._reader.position

    def __iter__(self) -> Iterator[LoadedKey | LoadedLibrary | Skipped]:
        for record in self.in_steps(0):
            if not isinstance(record, UnfinishedStream):
                yield record

    def in_steps(self, step_bytes: int) -> Iterator[LoadedKey | LoadedLibrary | Skipped | UnfinishedStream]:
        """Give the same, and a large stream also while it is read, each time that so many bytes of it were.

        Its nodes may be moved from memory then. 0: streams are read as a whole.
        """
        reader = self._reader
        expires_ms = idle_s = frequency = metadata_at = None
        while True:
            start = reader.position
            if not reader.remaining:
                raise CorruptPayload(
                    f"offset {start}: expected a key or the end mark, but the file ends here; it was cut off"
                )
            code = reader.byte()
            if code < _FIRST_OPCODE:
                if code in _NO_END:
                    self._refuse(code, start)
                self.key_offset = start
                key = reader.string()
                for record in self._read_key(code, start, key, step_bytes):
                    if isinstance(record, Skipped):
                        yield record
                    elif isinstance(record, _Unfinished):
                        yield UnfinishedStream(self._db, key, record.stream, expires_ms)
                    else:
                        yield LoadedKey(self._db, key, record, expires_ms, idle_s, frequency)
                if metadata_at is not None:
                    yield Skipped("key metadata", self._db, key, metadata_at, "only the modules that wrote it know it")
                expires_ms = idle_s = frequency = metadata_at = None
            elif code == Opcode.EXPIRES_MS:
                expires_ms = reader.milliseconds()
            elif code == Opcode.EXPIRES_S:
                expires_ms = reader.seconds() * 1000
            elif code == Opcode.IDLE:
                idle_s = reader.length()
            elif code == Opcode.FREQUENCY:
                frequency = reader.byte()
            elif code == Opcode.KEY_METADATA:
                metadata_at = start
                skip_key_metadata(reader)
            elif code == Opcode.END:
                self._finish()
                return
            else:
                yield from self._read_between_keys(code, start)

    def _read_between_keys(self, code: int, start: int) -> Iterator[LoadedLibrary | Skipped]:
        reader = self._reader
        if code == Opcode.AUX:
            field, value = reader.strings(2)
            if field in (REMAINDER_FIELD, IDENTITY_FIELD):
                self._beside[field] = value
            else:
                self.aux[field] = value
        elif code == Opcode.SELECT:
            self._db = reader.length()
        elif code == Opcode.RESIZE:
            reader.length(), reader.length()
        elif code == Opcode.SLOT_INFO:
            reader.length(), reader.length(), reader.length()
        elif code == Opcode.FUNCTION:
            yield LoadedLibrary(reader.string(), start)
        elif code == Opcode.MODULE_AUX:
            name = skip_module_aux(reader)
            yield Skipped("module data", self._db, None, start, f"there is no module {name} here")
        else:
            self._refuse(code, start)

    def _read_key(self, code: int, start: int, key: bytes, step_bytes: int) -> Iterable[Value | Skipped | _Unfinished]:
        """Give the value of a key, or what is to be said about it, or both."""
        reader = self._reader
        try:
            if code == MODULE:
                name = skip_module_value(reader)
                return (Skipped("module value", self._db, key, start, f"there is no module {name} here"),)
            if code in TIMED_HASH_TYPES:
                return self._report_times(read_timed_hash(reader, code, self._now_ms), start, key)
            if code == REFERRING_STREAM:
                stream = self._read_referring_stream(start)
                self._add_fields(stream)
                return (stream,)
            if step_bytes and code in _IN_STEPS:
                return self._read_stream(code, start, key, step_bytes)
            value = read_value(reader, code, self._limits)
            self._add_fields(value)
            return (value,)
        except EmptyValue:
            return (Skipped("empty value", self._db, key, start, "a key that holds nothing is no key"),)
        except CorruptPayload as error:
            raise self._located(error, start, key) from None

    def _located(self, error: CorruptPayload, start: int, key: bytes) -> CorruptPayload:
        return CorruptPayload(f"{error} (in key {_shown(key)} of database {self._db}, at offset {start})")

    def _read_stream(self, code: int, start: int, key: bytes, step_bytes: int) -> Iterator[Stream | _Unfinished]:
        stream = Stream(self._limits)
        try:
            for _ in read_stream_in_steps(self._reader, code, stream, step_bytes):
                yield _Unfinished(stream)
            self._add_fields(stream)
        except CorruptPayload as error:
            raise self._located(error, start, key) from None
        yield stream

    def _read_referring_stream(self, start: int) -> Stream:
        if self._find_runs is None:
            raise CorruptPayload(f"offset {start}: found a stream that refers to segments, which are not here")
        return read_referring_stream(self._reader, self._limits, self._find_runs)

    def _add_fields(self, value: Value) -> None:
        """Give a stream what stands before its key."""
        beside, self._beside = self._beside, {}
        if isinstance(value, Stream):
            if REMAINDER_FIELD in beside:
                restore_remainder(value, beside[REMAINDER_FIELD])
            value.identity = beside.get(IDENTITY_FIELD, None if OWN_FIELD in self.aux else COPIED)
        elif beside:
            field = next(iter(beside)).decode()
            raise CorruptPayload(f"the field {field} stands before a value that is no stream")

    def _refuse(self, code: int, start: int) -> NoReturn:
        raise CorruptPayload(f"offset {start}: found {_NO_END[code]}; it cannot be read here, nor what follows it")

    def _report_times(self, timed: TimedHash, start: int, key: bytes) -> Iterator[Value | Skipped]:
        if timed.fields:
            yield timed.fields
        if timed.forgotten_times:
            why = f"{timed.forgotten_times} fields were to expire, and will not: fields have no expiry here"
            yield Skipped("field expiry", self._db, key, start, why)
        if timed.expired:
            yield Skipped("expired fields", self._db, key, start, f"{timed.expired} fields had expired")

    def _finish(self) -> None:
        reader = self._reader
        if self.version >= FIRST_CHECKSUM_VERSION:
            body = reader.position
            if reader.remaining < CHECKSUM.size:
                reader.refuse_overrun("the checksum of the file")
            reader.raw(CHECKSUM.size)
            if self._checksum is not None:
                self.has_checksum = check_sum(reader.source, body, self._checksum.of_first(body))
        if reader.remaining and not self._preamble:
            raise CorruptPayload(
                f"offset {reader.position}: expected the end of the file, but {reader.remaining} bytes follow"
            )


class Field(NamedTuple):
    """An auxiliary field, and where it stands."""

    value: bytes
    start: int
    end: int


def leading_fields(source: bytes | bytearray | memoryview) -> dict[bytes, Field]:
    """Read the auxiliary fields at the front of a file, and nothing else of it."""
    read_version(source)
    reader = RdbReader(source, HEADER_SIZE)
    fields: dict[bytes, Field] = {}
    while reader.remaining and reader.source[reader.position] == Opcode.AUX:
        start = reader.position
        reader.byte()
        name, value = reader.strings(2)
        fields[name] = Field(value, start, reader.position)
    return fields


class _ConcurrentChecksum:
    """The checksum of a large file, computed by a thread while its values are read.

    A file nearly always ends with its snapshot. Where something follows it, the work was in vain and is done again. For
    three million entries in 39 MB the thread saves 20 ms of 160, which is what checking every node takes.
    """

    def __init__(self, source: memoryview) -> None:
        self._body = len(source) - CHECKSUM.size
        self._result: int | None = None
        self._thread: Thread | None = None
        if self._body >= _LARGE:
            thread = Thread(target=self._compute, args=(source,), daemon=True)
            with suppress(RuntimeError):  # the system allows no more threads
                thread.start()
                self._thread = thread

    def _compute(self, source: memoryview) -> None:
        self._result = crc64(source[: self._body])

    def of_first(self, size: int) -> int | None:
        """Return the checksum of so many bytes; None where it was not computed."""
        if self._thread is None or size != self._body:
            return None
        self._thread.join()
        return self._result


def _shown(text: bytes) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + b"...")[1:]
