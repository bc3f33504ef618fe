"""No command touches a key unless the rules of the user were checked for that key.

Which keys a command touched is seen from outside: the keys of its effects, the keys whose last access is now, and the
keys that it did not find, for which there are events.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.commands.all import TABLE
from headrace.engine.client import Client
from headrace.engine.command import Command, Flag
from support.companion_commands import CompanionCommands
from support.in_process import InProcess
from support.packed_rows import numbered

RECORDING = Path(__file__).parent.parent / "golden" / "redis-8.9-transcripts.jsonl.gz"
SCENARIOS = 60
NOW_MS = 1_800_000_000_000

Request = list[bytes]

# Each in a database where `s` is a stream with a group, and a batch of `q` is staged.
OWN_REQUESTS = [
    "HEADRACE COMMIT s q 1 1",
    "HEADRACE COMMIT s q 1 1 MAXLEN 2",
    "HEADRACE FORGET s q",
    "HEADRACE ABORT s q 1",
    "HEADRACE SPLITS s - + 4",
    "HEADRACE NODES s - +",
    "COPY s t",
    "RENAME s t",
    "RENAMENX s t",
    "MOVE s 1",
    "OBJECT ENCODING s",
    "OBJECT IDLETIME s",
    "MEMORY USAGE s",
    "DUMP s",
    "TOUCH s t",
    "XGROUP CREATE s h $",
    "XGROUP SETID s g 0",
    "XGROUP CREATECONSUMER s g c",
    "XGROUP DELCONSUMER s g c",
    "XGROUP DESTROY s g",
    "XINFO STREAM s FULL",
    "XINFO GROUPS s",
    "XINFO CONSUMERS s g",
    "XREADGROUP GROUP g c STREAMS s >",
    "XREAD STREAMS s t 0 0",
]
# These are about the whole keyspace, to which rules about keys do not apply, or run commands that are checked then.
WHOLE = {b"flushall", b"flushdb", b"swapdb", b"exec", b"debug", b"keys", b"scan", b"randomkey", b"dbsize"}


class Witness:
    """An engine that says which keys each request touched."""

    def __init__(self) -> None:
        self.engine = InProcess()
        self.now_ms = NOW_MS
        self.engine.set_clock(self.now_ms)
        self.engine.run("CONFIG", "SET", "notify-keyspace-events", "Em")
        self.missed: set[bytes] = set()
        self.engine.engine.exchange.publish = self._note_miss  # type: ignore[method-assign, assignment]

    def _note_miss(self, channel: bytes, message: bytes) -> int:
        if channel.startswith(b"__keyevent@"):
            self.missed.add(message)
        return 0

    def touched_by(self, request: Request) -> set[bytes]:
        engine = self.engine.engine
        self.now_ms += 2000
        self.engine.set_clock(self.now_ms)
        engine.tick()
        self.engine.take_effects()
        self.missed.clear()
        expired = engine.stats.expired
        self.engine.run(*request)
        self.end_wait(self.engine.client)
        touched = set(self.missed)
        for _, effect in self.engine.take_effects():
            command = engine.commands.named_by(effect)
            assert command is not None
            if engine.stats.expired == expired or effect[0] != b"DEL":
                touched.update(keys_of(command, effect))
        for db in engine.databases[:1]:
            touched.update(key for key in db.values if db.last_access(key) >= engine.keyspace.second)
        return touched

    def end_wait(self, client: Client) -> None:
        self.engine.engine.waiting.leave(client)


def keys_of(command: Command, argv: Request) -> list[bytes]:
    return [] if command.name == b"select" else list(command.keys_in(argv))


def assert_checked(witness: Witness, request: Request) -> bytes | None:
    """Run a request and compare; return the command's name where it was one."""
    command = witness.engine.engine.commands.named_by(request)
    touched = witness.touched_by(request)
    if command is None or command.name.split(b"|")[0] in WHOLE or command.flags & Flag.IN_MULTI:
        return None
    checked = set(command.keys_in(request)) if command.accepts(len(request)) else set()
    assert touched <= checked, f"{request} touched {touched - checked}, which nobody was asked about"
    return command.name


def recorded_requests() -> Iterator[list[Request]]:
    for line in gzip.decompress(RECORDING.read_bytes()).splitlines()[:SCENARIOS]:
        yield [[word.encode("latin-1") for word in step["cmd"]] for step in json.loads(line)["steps"]]


def test_recorded_stream_commands_touch_only_keys_that_are_checked() -> None:
    names: set[bytes | None] = set()
    for requests in recorded_requests():
        witness = Witness()
        names.update(assert_checked(witness, request) for request in requests)
    assert {b"xadd", b"xreadgroup", b"xautoclaim", b"xtrim"} <= names


def test_random_commands_on_other_types_touch_only_keys_that_are_checked() -> None:
    commands = CompanionCommands(12)
    witness = Witness()
    names = {assert_checked(witness, commands.valid()) for _ in range(4000)}
    assert len(names) > 80


@pytest.mark.parametrize("request_", OWN_REQUESTS)
def test_a_command_touches_only_keys_that_are_checked(request_: str) -> None:
    witness = Witness()
    run = witness.engine.run
    run("XADD", "s", "1-1", "a", "b")
    run("XADD", "s", "1-2", "a", "b")
    run("XGROUP", "CREATE", "s", "g", "0")
    run("HEADRACE", "STAGE", "s", "q", 0, 0, numbered(2))
    run("HEADRACE", "COMMIT", "s", "q", 0, 1)
    run("HEADRACE", "STAGE", "s", "q", 1, 0, numbered(2))
    assert assert_checked(witness, [word.encode() for word in request_.split()]) is not None


@pytest.mark.parametrize("request_", ["HEADRACE COMMIT s q 1 1", "HEADRACE FORGET s q"])
def test_without_permission_for_the_batches_a_commit_is_refused(request_: str) -> None:
    engine = InProcess()
    engine.run("HEADRACE", "STAGE", "s", "q", 1, 0, numbered(2))
    engine.run("ACL", "SETUSER", "writer", "on", "nopass", "+@all", "~s")
    engine.run("ACL", "SETUSER", "sink", "on", "nopass", "+@all", "~s", "~headrace:{s}:batches")
    writer, sink = engine.connect(), engine.connect()
    writer.run("AUTH", "writer", "x")
    sink.run("AUTH", "sink", "x")
    assert writer.run(*request_.split()) == b"-NOPERM No permissions to access a key\r\n"
    assert engine.run("EXISTS", "s", "headrace:{s}:batches") == b":0\r\n"
    assert not sink.run(*request_.split()).startswith(b"-")


def test_every_command_that_has_keys_says_how_it_treats_them() -> None:
    for outer in TABLE.values():
        for command in (outer, *outer.subcommands.values()):
            assert bool(command.access) == (command.keys is not None or command.find_keys is not None)
