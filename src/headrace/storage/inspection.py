"""Inspecting one file as a whole: all that is wrong with it, where it is, and what a repaired copy would change.

    snapshot     every value is read, and the checksum compared; streams lose the nodes that cannot be read
    commands     each is run on a scratch engine, one by one

Unlike start-up, which stops at the first damage, this goes on: behind bytes that are no command it looks for the next
whole command that we know, and behind a group that is not as it was sealed for what follows that. A repaired copy is
the file with some ranges replaced, mostly by nothing (`edits`).

    MULTI a ▒▒▒ c EXEC      ▒▒▒ is dropped
    MULTI a ▒▒▒ c MULTI     ▒▒▒ was the EXEC: it is put there
    MULTI a ▒▒▒             the end is missing: dropped from MULTI on
    seal ▒▒▒ seal c         the group is dropped with its seal; if it chose a database, that is put there
    seal a ▒▒▒ b            ▒▒▒ is as it was sealed, but refused: it is dropped, and the seal with it

Nothing here writes to a file.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.commands.all import TABLE, make_engine
from headrace.core.cold import part_matches
from headrace.core.offloading import parts_of
from headrace.core.stream import Stream
from headrace.engine.applier import Applier
from headrace.engine.configuration.config import Config
from headrace.engine.errors import CommandError
from headrace.formats.aof import AofReader, Ending, encode, find_command
from headrace.formats.aof_seal import SEAL_BYTES
from headrace.formats.errors import CorruptPayload, WrongChecksum
from headrace.formats.rdb_file import CHECKSUM, FIRST_CHECKSUM_VERSION, SEGMENTS_FIELD, check_sum
from headrace.formats.rdb_file_reader import LoadedKey, LoadedLibrary, RdbFileReader, Skipped, leading_fields
from headrace.formats.rdb_file_writer import encode_field, encode_referring_stream
from headrace.storage.loading import was_understood
from headrace.storage.segments.names import named_in, naming_field
from headrace.storage.segments.sound_runs import SoundRuns
from headrace.storage.tail import commands_in, groups_inside, readable, shown

_DATABASES: Final = 1024  # more than anybody configures
_RECORDS_AT_ONCE: Final = 256  # between two reports of progress
_NAMED: Final = 5  # of the commands in a group
_EXEC: Final = encode([b"EXEC"])


class Problem(NamedTuple):
    """Something wrong with a file; without an offset, with all of it."""

    offset: int | None
    text: str


class Edit(NamedTuple):
    """A range of a file that a repaired copy replaces."""

    start: int
    end: int
    replacement: bytes = b""


@dataclass
class Findings:
    """What was found in one file."""

    contents: list[str] = field(default_factory=list)  # `snapshot`, `commands`, or both
    keys: int = 0
    commands: int = 0
    groups: int = 0  # of commands, that are as they were sealed
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    unused: int = 0  # bytes of prepared space at the end
    beyond_repair: bool = False

    def repaired(self, source: memoryview) -> bytes:
        """Return the file with its edits made; one inside of another is not made."""
        parts: list[bytes] = []
        at = 0
        for edit in sorted(self.edits, key=lambda edit: (edit.start, edit.end > edit.start, -edit.end)):
            if edit.start < at:
                continue
            parts += [bytes(source[at : edit.start]), edit.replacement]
            at = edit.end
        return b"".join([*parts, bytes(source[at:])])


class Scratch:
    """An engine that files are tried on, in the order in which they would be loaded."""

    def __init__(self, runs: SoundRuns) -> None:
        """Begin; `runs` has what streams refer to."""
        self._runs = runs
        config = Config()
        config.load("databases", [str(_DATABASES)])
        self.engine = make_engine(config)
        self.engine.hooks.failure = lambda _name, _bug: None
        self.applier = Applier(self.engine, self.engine.clocks.unix_ms())

    def inspect(
        self, source: memoryview, *, snapshot: bool = False, alone: bool = False
    ) -> Generator[int, None, Findings]:
        """Look at a file; gives how many bytes are done, and returns the findings.

        `snapshot`: it begins with one. `alone`: what is before it is not known, so that commands need not fit the data.
        """
        findings = Findings()
        position = 0
        if snapshot:
            findings.contents.append("snapshot")
            position = yield from self._inspect_snapshot(source, findings)
        if not findings.beyond_repair and (not findings.contents or position < len(source)):
            findings.contents.append("commands")
            yield from _CommandInspection(self.applier, source, position, findings, alone=alone).run()
        return findings

    def _inspect_snapshot(self, source: memoryview, findings: Findings) -> Generator[int, None, int]:
        try:
            reader = RdbFileReader(source, verify=False, preamble=True, find_runs=self._runs.find_runs)
            for count, record in enumerate(reader):
                if isinstance(record, Skipped):
                    findings.notes.append(str(record))
                elif isinstance(record, LoadedLibrary):
                    self._keep_library(record, findings)
                else:
                    self._note_lost_nodes(record, reader, findings)
                    self._compare_parts(record, reader, findings)
                    self._keep(record)
                    findings.keys += 1
                if count % _RECORDS_AT_ONCE == 0:
                    yield reader.position
        except CorruptPayload as error:
            findings.problems.append(_located(str(error)))
            findings.beyond_repair = True
            return len(source)
        end = reader.position
        self._drop_lost_segments(source, findings)
        if reader.version < FIRST_CHECKSUM_VERSION:
            return end
        try:
            check_sum(source, end - CHECKSUM.size)
        except WrongChecksum as error:
            findings.problems.append(_located(str(error)))
            findings.edits.append(Edit(end - CHECKSUM.size, end, bytes(CHECKSUM.size)))
        else:
            if findings.edits:
                findings.edits.append(Edit(end - CHECKSUM.size, end, bytes(CHECKSUM.size)))
        return end

    def _note_lost_nodes(self, record: LoadedKey, reader: RdbFileReader, findings: Findings) -> None:
        """Let a repaired copy have a stream without the nodes that cannot be read, as it was loaded."""
        lost = self._runs.take_lost()
        if lost and isinstance(record.value, Stream):
            text = f"{lost} nodes that the stream {record.key!r} refers to cannot be read"
            findings.problems.append(Problem(reader.key_offset, text))
            replacement = encode_referring_stream(record.key, record.value)
            findings.edits.append(Edit(reader.key_offset, reader.position, replacement))

    def _compare_parts(self, record: LoadedKey, reader: RdbFileReader, findings: Findings) -> None:
        """Compare what the base says of nodes in segments with their index; a start believes it, and reads no index."""
        parts = parts_of(record.value) if isinstance(record.value, Stream) else []
        if not all(map(part_matches, parts)):
            text = f"the counts and IDs of nodes that the stream {record.key!r} refers to are not those of its segments"
            findings.problems.append(Problem(reader.key_offset, text))
            findings.beyond_repair = True

    def _drop_lost_segments(self, source: memoryview, findings: Findings) -> None:
        """Let a repaired copy name only segments that can be opened."""
        field = leading_fields(source).get(SEGMENTS_FIELD)
        named = frozenset[int]() if field is None else named_in(field.value)
        sound = [number for number in named if self._runs.can_be_opened(number)]
        if field is not None and len(sound) < len(named):
            replacement = b"".join(encode_field(*each) for each in naming_field(sound).items())
            findings.edits.append(Edit(field.start, field.end, replacement))

    def _keep_library(self, record: LoadedLibrary, findings: Findings) -> None:
        try:
            self.engine.functions.load(record.code, replace=True)
        except CommandError as error:
            text = f"a library of functions cannot be loaded: {error.text.decode('latin-1')}"
            findings.problems.append(Problem(record.offset, text))

    def _keep(self, record: LoadedKey) -> None:
        if record.db < _DATABASES:
            self.engine.keyspace.load(record.db, record.key, record.value, record.expires_ms, record.idle_s)


def _located(text: str) -> Problem:
    """Take the offset out of a sentence that begins with it."""
    head, colon, rest = text.partition(": ")
    number = head.removeprefix("offset ")
    return Problem(int(number), rest) if colon and number.isdigit() else Problem(None, text)


class _Damage(NamedTuple):
    start: int
    end: int


class _CommandInspection:
    """One walk over the commands of a file."""

    def __init__(self, applier: Applier, source: memoryview, position: int, findings: Findings, *, alone: bool) -> None:
        self._applier = applier
        self._source = source
        self._reader = AofReader(source, position)
        self._findings = findings
        self._alone = alone
        self._multi: int | None = None  # where the open transaction begins
        self._multi_seal: Edit | None = None  # the edit that removes the seal of the group that it begins in
        self._damage: _Damage | None = None  # the last one in it

    def run(self) -> Iterator[int]:
        """Look at every command."""
        findings = self._findings
        self._applier.run([b"SELECT", b"0"])
        end = self._reader.data_size
        while True:
            reader = self._reader
            while (argv := reader.next()) is not None:
                self._take(argv, reader.start, reader.position)
                findings.commands += 1
                if findings.commands % _RECORDS_AT_ONCE == 0:
                    yield reader.position
            findings.groups += reader.groups
            if reader.ending is Ending.COMPLETE:
                break
            stop = self._end_of_damage(reader)
            if reader.ending is Ending.BROKEN:
                self._drop_group(reader, stop)
            else:
                self._report_damage(reader, reader.position, stop)
            if stop == end:
                break
            self._reader = AofReader(self._source, stop)
        if self._multi is not None:
            self._close_transaction(self._multi, end, at_end=True)
        if reader.unused:
            findings.unused = reader.unused
            findings.notes.append(f"{reader.unused} bytes of prepared space at the end are not used yet")
            findings.edits.append(Edit(reader.size - reader.unused, reader.size))

    def _end_of_damage(self, reader: AofReader) -> int:
        """Find where to go on behind the place that a reader has stopped at."""
        start, end = reader.position, reader.data_size
        if reader.ending is Ending.BROKEN and bytes(self._source[reader.group_end : end][:1]) in (b"", b"*", b"#"):
            return reader.group_end
        in_group = reader.group_end > start
        if reader.ending is Ending.TRUNCATED and in_group and not groups_inside(self._source, start, end):
            return end
        following = self._next_known(start + 1, end)
        return end if following < 0 else following

    def _next_known(self, start: int, end: int) -> int:
        """Find the next whole command that we know: text that looks like a command may be in any value."""
        data = self._source[:end]
        at = find_command(data, start)
        while at >= 0:
            argv = AofReader(data, at).next()
            known = TABLE.get(argv[0].lower()) if argv is not None else None
            if argv is not None and known is not None and (known.subcommands or known.accepts(len(argv))):
                return at
            at = find_command(data, at + 1)
        return -1

    def _drop_group(self, reader: AofReader, stop: int) -> None:
        """Drop a group that is not as it was sealed; the commands behind it are for the database that it chose."""
        start = reader.position
        data = bytes(self._source[start:stop])
        names = commands_in(data)
        listed = ", ".join((*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])))
        lost = f"{stop - start} bytes{f' with {listed}' if listed else ''} are not believed"
        self._findings.problems.append(Problem(start, f"{reader.problem}; {lost}"))
        chosen = b""
        for argv in readable(data):
            if argv[0].upper() == b"SELECT" and self._applier.run(argv) is None:
                chosen = encode(argv)
        self._findings.edits.append(Edit(start, stop, chosen))

    def _report_damage(self, reader: AofReader, start: int, stop: int) -> None:
        begun = reader.begun()
        which = f" (in {shown(begun)})" if begun else ""
        at_end = stop == reader.data_size
        offset = reader.bad if reader.ending is Ending.CORRUPT or at_end else start
        problem = (
            "the command does not end where its lengths say"
            if reader.ending is Ending.TRUNCATED and not at_end
            else reader.problem
        )
        self._findings.problems.append(Problem(offset, f"{problem}{which}; {stop - start} bytes are no command"))
        self._findings.edits.append(Edit(start, stop))
        if self._multi is not None:
            self._damage = _Damage(start, stop)

    def _take(self, argv: list[bytes], start: int, end: int) -> None:
        name = argv[0].upper()
        if name == b"MULTI" and len(argv) == 1:
            if self._multi is not None:
                self._close_transaction(self._multi, start, at_end=False)
            self._multi = start
            self._multi_seal = self._seal()
        elif name == b"EXEC" and len(argv) == 1:
            if self._multi is None:
                self._drop(argv, start, end, "there is no MULTI before it")
            self._multi = self._damage = None
        else:
            error = self._applier.run(argv)
            if error is not None and not (self._alone and was_understood(error)):
                self._drop(argv, start, end, error.decode("utf-8", "backslashreplace"))

    def _drop(self, argv: list[bytes], start: int, end: int, why: str) -> None:
        self._findings.problems.append(Problem(start, f"{shown(argv)} is refused: {why}"))
        self._change(Edit(start, end), self._seal())

    def _seal(self) -> Edit | None:
        """Give the edit that removes the seal of the group that the last command is in, if it is in one."""
        reader = self._reader
        if reader.position > reader.group_end:
            return None
        return Edit(reader.group_start, reader.group_start + SEAL_BYTES)

    def _change(self, edit: Edit, seal: Edit | None) -> None:
        """Change something in a group, which cannot keep its seal then."""
        self._findings.edits.append(edit)
        if seal is not None:
            self._findings.edits.append(seal)

    def _close_transaction(self, multi: int, at: int, *, at_end: bool) -> None:
        """Deal with a transaction that has no EXEC up to here."""
        findings = self._findings
        damage = self._damage
        if damage is not None and not (at_end and damage.end == at):
            findings.edits.remove(Edit(*damage))
            findings.edits.append(Edit(*damage, _EXEC))
        else:
            findings.problems.append(Problem(multi, "the transaction that begins with this MULTI has no EXEC"))
            if at_end:
                self._change(Edit(multi, at), self._multi_seal)
            else:
                self._change(Edit(at, at, _EXEC), self._seal())
        self._multi = self._damage = None
