"""The same history on a live redis-server and on a Stream, command by command: equal replies, state and bytes.

    HEADRACE_SEED=n      run only the history of that seed; a failure prints its seed, step and last commands
    HEADRACE_LONG=1      a million commands, of seeds never used before

Redis 7.0.15 is five years older than the rules that Headrace follows. Where they differ, one of these is done, and
nothing else is forgiven:

    entries-read and lag were corrected later          each side is held to its own rules: read_counters.py
    entries-read is at most entries-added (8.2.2)      told to 7.0.15 by XGROUP SETID after each command
    a consumer that is given nothing exists (7.2)      told to 7.0.15 by XGROUP CREATECONSUMER
    no node without a live entry (8.8, behaviour 2.6)  not asked for; shown by a test of its own
    backlen of 16383-byte elements (8.8, behaviour 2.3)in nodes whose limit that byte cannot touch; written the old way
    XSETID goes below no deleted ID (7.2)              not asked for; shown by a test of its own
"""

import os
import random
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.stream_value import dump_stream, restore_stream
from support.campaign import LONG
from support.history import HOUR_MS, KEY, Command, CommandChooser, leaves_dead_node
from support.live_server import Server, checking_every_byte
from support.read_counters import Counted, ReadCounters, RulesOf70, RulesOfToday
from support.stream_face import Refusal, StreamFace
from support.xinfo import describe, fields_of, read_reply, take_times

COMMANDS_OF_HISTORY = 250
HISTORIES = 20
COMMANDS_OF_CAMPAIGN = 1_000_000
TWIN = b"twin"

# Records are delivered "now" by two clocks that were read a moment apart, or at hours that a command names.
CLOCK_TOLERANCE_MS = HOUR_MS // 4


@pytest.fixture
def server(redis_server: redis.Redis) -> Iterator[Server]:
    with checking_every_byte(redis_server) as server:
        yield server


class Comparison:
    """One history on both sides."""

    def __init__(self, seed: int, server: Server) -> None:
        self.seed = seed
        self.step = 0
        self.latest: deque[Command] = deque(maxlen=8)
        self.chooser = CommandChooser(seed)
        self.random = random.Random(~seed)
        self.server = server
        self.face = StreamFace(self.chooser.limits)
        self.theirs = ReadCounters(RulesOf70)
        self.ours = ReadCounters(RulesOfToday)
        server(b"FLUSHALL")
        server(b"CONFIG", b"SET", b"stream-node-max-bytes", b"%d" % self.chooser.limits.max_bytes)
        server(b"CONFIG", b"SET", b"stream-node-max-entries", b"%d" % self.chooser.limits.max_entries)
        server(b"XGROUP", b"CREATE", KEY, b"first", b"0", b"MKSTREAM")
        server(b"XGROUP", b"DESTROY", KEY, b"first")

    @property
    def stream(self) -> Stream:
        return self.face.stream

    def run(self, steps: int) -> None:
        try:
            while self.step < steps:
                self.take_step()
                if self.step % 25 == 0 or self.step == steps:
                    self.compare_state()
                    self.exchange()
        except Exception as error:
            lines = "\n".join("  " + " ".join(map(shorten, command)) for command in self.latest)
            where = f"step {self.step}, {self.chooser.limits}, last commands"
            error.add_note(f"HEADRACE_SEED={self.seed} replays this: {where}\n{lines}")
            raise

    # --- one command -------------------------------------------------------------------------------------------

    def take_step(self) -> None:
        self.step += 1
        now_ms = time.time_ns() // 1_000_000
        command = self.chooser.next(self.stream, now_ms)
        self.latest.append(command)
        before = {group.name: group.last_delivered_id for group in self.stream.group_list()}
        reply = self.server.execute(command)
        assert self.face.execute(command, now_ms) == reply
        self.follow_counters(command, reply, before)
        self.bring_up_to_date(command, reply)

    def follow_counters(self, command: Command, reply: Any, before: dict[bytes, StreamID]) -> None:
        state = Counted.of(self.stream)
        for counters in (self.theirs, self.ours):
            if command[0] == b"XREADGROUP" and command[-1] == b">" and isinstance(reply, list):
                group = command[2]
                counters.deliver(state, group, before[group], [StreamID.parse(entry_id) for entry_id, _ in reply[0][1]])
            if command[:2] in ((b"XGROUP", b"CREATE"), (b"XGROUP", b"SETID")) and reply == b"OK":
                read = int(command[6]) if len(command) == 7 else -1
                counters.read[command[3]] = None if read == -1 else read
            if command[:2] == (b"XGROUP", b"DESTROY"):
                counters.read.pop(command[3], None)

    def bring_up_to_date(self, command: Command, reply: Any) -> None:
        """Tell 7.0.15 what later versions would have done by themselves."""
        added = self.stream.entries_added
        for group in self.theirs.above(added):
            ahead = self.stream.group(group)
            assert ahead is not None
            self.server(b"XGROUP", b"SETID", KEY, group, bytes(ahead.last_delivered_id), b"ENTRIESREAD", b"%d" % added)
            self.theirs.read[group] = added
        for group in self.ours.above(added):
            self.ours.read[group] = added
        given_nothing = (
            (command[0] == b"XREADGROUP" and reply is None)
            or (command[0] == b"XCLAIM" and reply == [])
            or (command[0] == b"XAUTOCLAIM" and isinstance(reply, list) and reply[1] == [])
        )
        if given_nothing:
            self.server(b"XGROUP", b"CREATECONSUMER", KEY, command[2], command[3])

    # --- the whole state ---------------------------------------------------------------------------------------

    def compare_state(self) -> None:
        entries = [[bytes(entry_id), fields] for entry_id, fields in self.stream.range()]
        assert self.server(b"XLEN", KEY) == len(self.stream) == len(entries)
        assert self.server(b"XRANGE", KEY, b"-", b"+") == entries
        assert self.server(b"XREVRANGE", KEY, b"+", b"-") == entries[::-1]
        assert [[bytes(entry_id), fields] for entry_id, fields in self.stream.range(reverse=True)] == entries[::-1]
        if entries:
            self.compare_ranges([bytes(entry_id) for entry_id, _ in self.stream.range()])

        theirs = read_reply(self.server(b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0"))
        ours = fields_of(describe(self.stream), theirs)
        times = zip(take_times(theirs), take_times(ours), strict=True)
        assert all(abs(one - other) < CLOCK_TOLERANCE_MS for one, other in times)
        state = Counted.of(self.stream)
        for info, counters in ((theirs, self.theirs), (ours, self.ours)):
            for group in info[b"groups"]:
                last = StreamID.parse(group[b"last-delivered-id"])
                assert group.pop(b"entries-read") == counters.read[group[b"name"]]
                assert group.pop(b"lag") == counters.lag(state, group[b"name"], last)
        assert ours == theirs

    def compare_ranges(self, ids: list[bytes]) -> None:
        start, end = sorted(StreamID.parse(self.random.choice(ids)) for _ in range(2))
        count = self.random.choice((1, 3, 1000))
        for name, bounds, reverse in ((b"XRANGE", (start, end), False), (b"XREVRANGE", (end, start), True)):
            reply = self.server(name, KEY, *map(bytes, bounds), b"COUNT", b"%d" % count)
            assert [
                [bytes(entry_id), fields] for entry_id, fields in self.stream.range(start, end, count, reverse)
            ] == reply

    # --- payloads ----------------------------------------------------------------------------------------------

    def exchange(self) -> None:
        payload = self.server(b"DUMP", KEY)
        restored = restore_stream(payload, self.face.node_limits)
        assert dump_stream(restored, "7.0") == payload
        assert list(restored.nodes()) == list(self.stream.nodes())
        self.assert_described(read_reply(self.server(b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0")), restored)

        sent = dump_stream(self.stream, "7.0")
        self.server(b"RESTORE", TWIN, b"0", sent, b"REPLACE")
        assert self.server(b"DUMP", TWIN) == sent
        self.assert_described(read_reply(self.server(b"XINFO", b"STREAM", TWIN, b"FULL", b"COUNT", b"0")), self.stream)

        form = self.random.choice(("auto", "7.2", "8.6", "8.8"))
        written = dump_stream(self.stream, form)
        reloaded = restore_stream(written, self.face.node_limits)
        assert dump_stream(reloaded, form) == written
        self.go_on_with(restored, reloaded, sent)

    def assert_described(self, theirs: Any, stream: Stream) -> None:
        """Two sides with the same payload agree in everything, times included, but for the rules of lag."""
        ours = fields_of(describe(stream), theirs)
        state = Counted.of(stream)
        for group, other in zip(ours[b"groups"], theirs[b"groups"], strict=True):
            read, last = group[b"entries-read"], StreamID.parse(group[b"last-delivered-id"])
            assert group.pop(b"lag") == RulesOfToday.lag(state, read, last)
            assert other.pop(b"lag") == RulesOf70.lag(state, read, last)
        assert ours == theirs

    def go_on_with(self, from_theirs: Stream, from_ours: Stream, sent: bytes) -> None:
        """Let the rest of the history run on what was loaded, on one side or the other."""
        roll = self.random.random()
        if roll < 0.15:
            self.face.stream = from_theirs
            self.ours.read = dict(self.theirs.read)
        elif roll < 0.3:
            self.face.stream = from_ours
        elif roll < 0.45:
            self.server(b"RESTORE", KEY, b"0", sent, b"REPLACE")
            self.theirs.read = dict(self.ours.read)


def shorten(word: bytes) -> str:
    return str(word[:40])[1:] + (f"…({len(word)})" if len(word) > 40 else "")


def chosen_seed() -> int | None:
    seed = os.environ.get("HEADRACE_SEED")
    return None if seed is None else int(seed)


@pytest.mark.parametrize("seed", [chosen_seed()] if chosen_seed() is not None else range(HISTORIES))
def test_a_history_gives_equal_replies_state_and_bytes_on_redis_and_here(server: Server, seed: int) -> None:
    Comparison(seed, server).run(COMMANDS_OF_HISTORY)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or chosen_seed() is not None, reason="a campaign: HEADRACE_LONG=1")
def test_a_million_commands_give_equal_replies_state_and_bytes(server: Server) -> None:
    first = random.SystemRandom().randrange(2**32)
    for number in range(COMMANDS_OF_CAMPAIGN // COMMANDS_OF_HISTORY + 1):
        Comparison(first + number, server).run(COMMANDS_OF_HISTORY)


# --- the rules that differ, each by itself --------------------------------------------------------------------------


def both(server: Server, *lines: bytes) -> tuple[StreamFace, list[Any], list[Any]]:
    """Run lines on both sides, and give our side with the replies of theirs and of ours."""
    face = StreamFace(CommandChooser(0).limits)
    face.node_limits.max_bytes, face.node_limits.max_entries = 4096, 100
    commands = [tuple(line.replace(b"$KEY", KEY).split()) for line in lines]
    return face, [server.execute(command) for command in commands], [face.execute(command, 1) for command in commands]


def test_a_node_whose_last_entry_is_trimmed_before_a_tombstone_is_dropped_here_and_stays_in_7_0(server: Server) -> None:
    face, theirs, ours = both(
        server, b"XADD $KEY 1-0 f v", b"XADD $KEY 2-0 f v", b"XADD $KEY 3-0 f v", b"XDEL $KEY 3-0"
    )
    assert theirs == ours
    assert leaves_dead_node(face.stream, StreamID(3))
    trim = (b"XTRIM", KEY, b"MINID", b"3-0")
    assert server.execute(trim) == face.execute(trim, 1) == 2
    info = read_reply(server(b"XINFO", b"STREAM", KEY, b"FULL"))
    assert (info[b"length"], info[b"radix-tree-keys"]) == (0, 1)
    assert (len(face.stream), face.stream.node_count) == (0, 0)

    restored = restore_stream(server(b"DUMP", KEY))
    assert describe(restored) == describe(face.stream)


def test_xsetid_below_a_deleted_id_is_refused_here_and_taken_by_7_0(server: Server) -> None:
    _, theirs, ours = both(
        server, b"XADD $KEY 1-0 f v", b"XADD $KEY 2-0 f v", b"XADD $KEY 3-0 f v", b"XDEL $KEY 3-0", b"XSETID $KEY 2-0"
    )
    assert theirs[:-1] == ours[:-1]
    assert (theirs[-1], ours[-1]) == (b"OK", Refusal("InvalidStreamState"))

    restored = restore_stream(server(b"DUMP", KEY))
    assert restored.last_id == StreamID(2)
    assert restored.append([b"f", b"v"], b"2-1") in restored


def test_xsetid_below_a_tombstone_is_taken_where_max_deleted_id_was_lowered_by_hand() -> None:
    """Regression: an entry behind a tombstone with a greater ID was listed by range, but not found by get or delete."""
    stream = Stream()
    for ms in (1, 2, 3):
        stream.append([b"f", b"v"], StreamID(ms))
    stream.delete([b"3-0"])
    stream.set_id(b"3-0", max_deleted_id=b"1-0")
    stream.set_id(b"2-0")
    assert stream.append([b"f", b"v"], b"2-1") in stream
    assert stream.delete([b"2-1"]) == 1


def test_entries_read_is_never_above_entries_added(server: Server) -> None:
    """Redis wrote such counts until 8.2.2, by XSETID until 2026, and from 8.8 on refuses to load them."""
    lines = [b"XADD $KEY %d-0 f v" % ms for ms in (1, 2, 3, 4, 5)]
    lines += [b"XGROUP CREATE $KEY created 0 ENTRIESREAD 100", b"XGROUP CREATE $KEY set 1-0"]
    lines += [b"XGROUP SETID $KEY set 1-0 ENTRIESREAD 100", b"XGROUP CREATE $KEY read 1-0 ENTRIESREAD 5"]
    lines += [b"XREADGROUP GROUP read c STREAMS $KEY >", b"XTRIM $KEY MAXLEN 2", b"XSETID $KEY 5-0 ENTRIESADDED 2"]
    face, theirs, ours = both(server, *lines)
    assert theirs == ours
    wrong = {g[b"name"]: g[b"entries-read"] for g in read_reply(server(b"XINFO", b"STREAM", KEY, b"FULL"))[b"groups"]}
    assert wrong == {b"created": 100, b"set": 100, b"read": 9}

    for stream in (face.stream, restore_stream(server(b"DUMP", KEY)), restore_stream(dump_stream(face.stream))):
        assert {group.name: group.position for group in stream.group_list()} == {b"created": 2, b"set": 2, b"read": 2}
        assert all(group.lag is not None and group.lag >= 0 for group in stream.group_list())


def test_a_consumer_that_is_given_nothing_exists_here_and_not_in_7_0(server: Server) -> None:
    face, theirs, ours = both(
        server,
        b"XADD $KEY 1-0 f v",
        b"XGROUP CREATE $KEY g 1-0",
        b"XREADGROUP GROUP g reader STREAMS $KEY >",
        b"XCLAIM $KEY g claimer 0 1-0",
        b"XAUTOCLAIM $KEY g scanner 0 0",
    )
    assert theirs == ours
    [group] = read_reply(server(b"XINFO", b"STREAM", KEY, b"FULL"))[b"groups"]
    assert group[b"consumers"] == []
    [ours_group] = face.stream.group_list()
    assert [consumer.name for consumer in ours_group.consumer_list()] == [b"claimer", b"reader", b"scanner"]
