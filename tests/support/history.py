"""Random histories of a stream, as the command lines that a client would send.

A history is its seed: the seed chooses how IDs grow, which fields entries have, when nodes are full, and then every
command. IDs and names are picked from what the stream really holds, from what it once held, and sometimes from
nowhere, so that commands find something, find a tombstone, or find nothing. Commands that one of the servers is known
to answer differently by a documented rule are not asked here; `test_histories.py` names each rule.
"""

import random
from collections import deque
from dataclasses import dataclass

from headrace.core.listpack import Listpack
from headrace.core.stream import Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID

KEY = b"history"

Command = tuple[bytes, ...]

HOUR_MS = 3_600_000
_MOST = 2**64 - 1

# (stream-node-max-bytes, stream-node-max-entries)
NODE_LIMITS = ((4096, 100), (4096, 3), (4096, 1), (0, 0), (0, 5), (64, 0), (100, 10), (300, 0), (0, 200), (20000, 130))

# Around the widths of string lengths (6, 12, 32 bits), and of the backlen that follows.
EDGE_SIZES = (62, 63, 64, 65, 120, 125, 126, 127, 128, 4093, 4094, 4095, 4096, 4097)
VAST_SIZES = (16376, 16377, 16378, 16379, 16380, 16381, 16382, 16383, 16384, 16385)
AMBIGUOUS_SIZE = 16378  # an element of 16383 bytes, whose backlen is one byte wider before 8.8

EDGE_INTEGERS = tuple(
    sign * edge + delta
    for edge in (127, 4096, 2**15, 2**23, 2**31, 2**63, 2**64)
    for sign in (1, -1)
    for delta in (-1, 0, 1)
)
NEARLY_INTEGERS = (b"-0", b"00", b"+1", b" 1", b"1 ", b"1.0", b"0x1", b"-", b"1e3", b"01", b"--1")
NAMES = (b"f", b"field", b"1", b"-7", b"4096", b"", b"\x00\xff\r\n", b"a" * 64, b"f" * 5, b"10000000000")
GROUPS = (b"g", b"group", b"1", b"", b"\x00\xff")
CONSUMERS = (b"alice", b"bob", b"3", b"", b"\xff\n")


@dataclass(frozen=True)
class Limits:
    """When a node is full."""

    max_bytes: int
    max_entries: int

    @property
    def approximate_limit(self) -> int:
        """How much `~` may trim where no LIMIT is given."""
        return min(100 * self.max_entries or 10_000, 1_000_000)


class CommandChooser:
    """Chooses the next command for a stream that has come to its present state by the commands chosen before."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # In turn, so that a few seeds in a row have them all, and a hundred every pair.
        self.limits = Limits(*NODE_LIMITS[(seed // 2 + seed // 20) % len(NODE_LIMITS)])
        self._grow = (self._ticking, self._dense, self._clock, self._sparse, self._far_future)[seed % 5]
        self._names = self.random.sample(NAMES, self.random.choice((1, 2, 2, 3, 5)))
        self._churn = self.random.choice((0.02, 0.1, 0.4))
        self._vast = self.random.choice((0.0, 0.0, 0.01))
        self._known: deque[StreamID] = deque(maxlen=400)
        self._queue: deque[Command] = deque()
        self._makers = (
            (self._xadd, 30),
            (self._burst, 1),
            (self._xdel, 9),
            (self._xtrim, 3),
            (self._xsetid, 1),
            (self._xgroup_create, 2),
            (self._xgroup_setid, 2),
            (self._xgroup_destroy, 0.3),
            (self._xgroup_consumer, 2),
            (self._xreadgroup_new, 12),
            (self._xreadgroup_history, 5),
            (self._xack, 8),
            (self._xclaim, 8),
            (self._xautoclaim, 5),
        )
        self._weights = [weight for _, weight in self._makers]

    def next(self, stream: Stream, now_ms: int) -> Command:
        """Choose a command; `now_ms` only matters where the times of records do."""
        if not self._queue and not stream.group_list() and self.random.random() < 0.5:
            self._queue.extend(self._xgroup_create(stream, now_ms))
        while not self._queue:
            (make, _), *_ = self.random.choices(self._makers, self._weights)
            self._queue.extend(make(stream, now_ms))
        return self._queue.popleft()

    # --- IDs ---------------------------------------------------------------------------------------------------

    def _ticking(self, last: StreamID) -> StreamID:
        return StreamID(last.ms + self.random.choice((1, 1, 1, 2, 300)), 0)

    def _dense(self, last: StreamID) -> StreamID:
        if self.random.random() < 0.05:
            return StreamID(last.ms + 1, self.random.choice((0, 1, 127, 128, 4096)))
        return StreamID(last.ms, last.seq + self.random.choice((1, 1, 2, 200)))

    def _clock(self, last: StreamID) -> StreamID:
        ms = max(last.ms, 1_700_000_000_000) + self.random.choice((0, 0, 1, 5, 40_000, 2**33))
        return StreamID(ms, last.seq + 1 if ms == last.ms else 0)

    def _sparse(self, last: StreamID) -> StreamID:
        """IDs that share few leading bytes, so that the rax branches everywhere."""
        if last.ms > 2**62:
            return StreamID(last.ms, last.seq + 1 + self.random.getrandbits(self.random.choice((1, 9, 20, 50))))
        leap = self.random.getrandbits(self.random.choice((1, 8, 17, 30, 40, 56)))
        return StreamID(last.ms + leap, last.seq + 1)

    def _far_future(self, last: StreamID) -> StreamID:
        """Beyond 2^63, where differences of IDs wrap, and towards the last possible ID."""
        if last.ms < 2**63:
            return StreamID(_MOST - self.random.getrandbits(12), self.random.getrandbits(64))
        if last.ms < _MOST and self.random.random() < 0.3:
            return StreamID(last.ms + 1, self.random.choice((0, 5, 2**63, _MOST - 3)))
        return last.successor() if last < MAX_ID else last

    def _next_id(self, stream: Stream, now_ms: int) -> bytes:
        last = stream.last_id
        roll = self.random.random()
        if roll < 0.03:
            return self.random.choice((b"0-0", b"0", b"0-*", bytes(last), self._some_id(stream)))
        if roll < 0.08:
            return b"%d-*" % min(last.ms + self.random.choice((0, 0, 1)), _MOST)
        if roll < 0.11 and last.ms > now_ms + HOUR_MS:
            return b"*"  # beyond the clock, so that both generate the successor
        try:
            entry_id = self._grow(last)
        except (ValueError, OverflowError):
            entry_id = last.successor() if last < MAX_ID else last
        self._known.append(entry_id)
        return bytes(entry_id)

    def _some_id(self, stream: Stream) -> bytes:
        roll = self.random.random()
        if self._known and roll < 0.8:
            return bytes(self.random.choice(self._known))
        if roll < 0.9:
            return bytes(self.random.choice((stream.first_id, stream.last_id, stream.max_deleted_id)))
        return self.random.choice((bytes(MIN_ID), b"1-1", b"7", bytes(MAX_ID), b"%d" % (stream.last_id.ms // 2)))

    def _some_ids(self, stream: Stream) -> list[bytes]:
        return [self._some_id(stream) for _ in range(self.random.choice((1, 1, 1, 2, 3, 8)))]

    def _pending_ids(self, stream: Stream, group: bytes) -> list[bytes]:
        """Mostly IDs that are pending in the group."""
        held = stream.group(group)
        records = held.pending_records(count=200) if held else []
        if not records or self.random.random() < 0.15:
            return self._some_ids(stream)
        chosen = self.random.choices(records, k=self.random.choice((1, 1, 2, 5)))
        return [bytes(entry_id) for entry_id, *_ in chosen] + (
            self._some_ids(stream) if self.random.random() < 0.2 else []
        )

    # --- fields ------------------------------------------------------------------------------------------------

    def _text(self) -> bytes:
        roll = self.random.random()
        if roll < 0.3:
            return b"%d" % self.random.randint(-200, 5000)
        if roll < 0.4:
            return b"%d" % self.random.choice(EDGE_INTEGERS)
        if roll < 0.45:
            return self.random.choice(NEARLY_INTEGERS)
        if roll < 0.5:
            return b""
        if roll < 0.56:
            return self.random.randbytes(self.random.choice(EDGE_SIZES))
        if roll < 0.56 + self._vast:
            size = self.random.choice(VAST_SIZES)
            # Node sizes differ by that byte, so that one near the limit might be full here and not there.
            if size == AMBIGUOUS_SIZE and self.limits.max_bytes > 4096:
                size += 1
            return self.random.choice((b"v", b"\xff")) * size
        return self.random.randbytes(self.random.randint(1, 20))

    def _pairs(self) -> list[bytes]:
        names = list(self._names)
        if self.random.random() < self._churn:
            change = self.random.randrange(4)
            if change == 0:
                names.append(self.random.choice(NAMES))
            elif change == 1:
                names = names[:-1] or [b"other"]
            elif change == 2:
                self.random.shuffle(names)
            else:
                names[-1] = self._text()[:100]
        return [text for name in names for text in (name, self._text())]

    # --- commands ----------------------------------------------------------------------------------------------

    def _xadd(self, stream: Stream, now_ms: int) -> list[Command]:
        trimming = self._trimming(stream) if self.random.random() < 0.04 else []
        return [(b"XADD", KEY, *trimming, self._next_id(stream, now_ms), *self._pairs())]

    def _burst(self, stream: Stream, now_ms: int) -> list[Command]:  # noqa: ARG002 - every maker is asked alike
        """So many entries that counters outgrow one byte where nodes are large enough."""
        start = stream.last_id
        if start.ms > 2**62:
            return []
        commands = []
        for step in range(1, self.random.choice((10, 40, 150))):
            entry_id = StreamID(start.ms + step, 0)
            self._known.append(entry_id)
            commands.append((b"XADD", KEY, bytes(entry_id), *self._pairs()))
        return commands

    def _xdel(self, stream: Stream, _: int) -> list[Command]:
        if self.random.random() < 0.06:  # a whole run, so that nodes die
            run = list(self._known)[-self.random.choice((5, 30, 150)) :]
            self.random.shuffle(run)
            return [(b"XDEL", KEY, *map(bytes, run))] if run else []
        return [(b"XDEL", KEY, *self._some_ids(stream))]

    def _xtrim(self, stream: Stream, _: int) -> list[Command]:
        return [(b"XTRIM", KEY, *self._trimming(stream))]

    def _trimming(self, stream: Stream) -> list[bytes]:
        approximate = self.random.random() < 0.5
        words: list[bytes]
        if self.random.random() < 0.6:
            words = [b"MAXLEN", b"%d" % self.random.choice((0, 1, len(stream) // 2, max(0, len(stream) - 3), 1000))]
        else:
            threshold = self._some_id(stream)
            # Before 8.8 a node may outlive its last entry here (behaviour 2.6): test_histories shows it by itself.
            if not approximate and leaves_dead_node(stream, StreamID.parse(threshold)):
                threshold = b"0-0"
            words = [b"MINID", threshold]
        if approximate:
            words.insert(1, b"~")
            if self.random.random() < 0.5:
                words += [b"LIMIT", b"%d" % self.random.choice((0, 1, 10, 100, 1000))]
        elif self.random.random() < 0.5:
            words.insert(1, b"=")
        return words

    def _xsetid(self, stream: Stream, _: int) -> list[Command]:
        last = stream.last_id
        entry_id = self.random.choice((bytes(last), self._some_id(stream), b"%d-%d" % (min(last.ms + 1, _MOST), 5)))
        # Below a deleted ID only 7.0 goes, unless an entry is in the way: test_histories shows that by itself.
        alive = next((alive for alive, _ in stream.range(count=1, reverse=True)), MIN_ID)
        if alive <= StreamID.parse(entry_id) < max(stream.max_deleted_id, last_stored_id(stream)):
            entry_id = bytes(last)
        if StreamID.parse(entry_id).ms > 2**62 and last.ms < 2**62:
            entry_id = bytes(last)  # do not use up the IDs
        command = [b"XSETID", KEY, entry_id]
        roll = self.random.random()
        if roll < 0.6:
            added = stream.entries_added
            command += [b"ENTRIESADDED", b"%d" % self.random.choice((added, added + 5, len(stream), max(0, added - 2)))]
        if roll < 0.3:
            command += [b"MAXDELETEDID", self._some_id(stream)]
        return [tuple(command)]

    def _group(self, stream: Stream) -> bytes:
        names = [group.name for group in stream.group_list()]
        return self.random.choice(names if names and self.random.random() < 0.95 else GROUPS)

    def _entries_read(self, stream: Stream) -> list[bytes]:
        if self.random.random() < 0.6:
            return []
        added = stream.entries_added
        return [b"ENTRIESREAD", b"%d" % self.random.choice((-1, 0, added, added // 2, added + 3))]

    def _start(self, stream: Stream) -> bytes:
        return self.random.choice((b"0", bytes(stream.last_id), self._some_id(stream), self._some_id(stream)))

    def _xgroup_create(self, stream: Stream, _: int) -> list[Command]:
        name = self.random.choice(GROUPS)
        return [(b"XGROUP", b"CREATE", KEY, name, self._start(stream), *self._entries_read(stream))]

    def _xgroup_setid(self, stream: Stream, _: int) -> list[Command]:
        return [(b"XGROUP", b"SETID", KEY, self._group(stream), self._start(stream), *self._entries_read(stream))]

    def _xgroup_destroy(self, stream: Stream, _: int) -> list[Command]:
        return [(b"XGROUP", b"DESTROY", KEY, self._group(stream))]

    def _xgroup_consumer(self, stream: Stream, _: int) -> list[Command]:
        verb = self.random.choice((b"CREATECONSUMER", b"CREATECONSUMER", b"DELCONSUMER"))
        return [(b"XGROUP", verb, KEY, self._group(stream), self.random.choice(CONSUMERS))]

    def _xreadgroup_new(self, stream: Stream, _: int) -> list[Command]:
        return [self._xreadgroup(stream, b">", [b"NOACK"] if self.random.random() < 0.1 else [])]

    def _xreadgroup_history(self, stream: Stream, _: int) -> list[Command]:
        return [self._xreadgroup(stream, self.random.choice((b"0", b"0", self._some_id(stream))), [])]

    def _xreadgroup(self, stream: Stream, after: bytes, options: list[bytes]) -> Command:
        name = self._group(stream)
        group = stream.group(name)
        owners = [owner for owner in group.consumer_list() if len(owner)] if group else []
        known = owners and after != b">" and self.random.random() < 0.8
        reader = (b"GROUP", name, self.random.choice(owners).name if known else self.random.choice(CONSUMERS))
        if self.random.random() < 0.8:
            options = [*options, b"COUNT", b"%d" % self.random.choice((1, 2, 5, 20, 0))]
        if after == bytes(MAX_ID):
            after = b"0"  # the same as >
        return (b"XREADGROUP", *reader, *options, b"STREAMS", KEY, after)

    def _xack(self, stream: Stream, _: int) -> list[Command]:
        group = self._group(stream)
        return [(b"XACK", KEY, group, *self._pending_ids(stream, group))]

    def _min_idle(self) -> bytes:
        """Half an hour off any idle time that records have, so that no clock decides."""
        return b"%d" % self.random.choice((0, 0, 0, HOUR_MS // 2, HOUR_MS * 3 // 2, HOUR_MS * 7 // 2))

    def _xclaim(self, stream: Stream, now_ms: int) -> list[Command]:
        group = self._group(stream)
        command = [b"XCLAIM", KEY, group, self.random.choice(CONSUMERS), self._min_idle()]
        command += self._pending_ids(stream, group)
        hours = self.random.choice((0, 1, 2, 3, 5))
        roll = self.random.random()
        if roll < 0.3:
            command += [b"IDLE", b"%d" % (hours * HOUR_MS)]
        elif roll < 0.6:
            command += [b"TIME", b"%d" % (now_ms - hours * HOUR_MS)]
        elif roll < 0.65:
            command += [b"TIME", self.random.choice((b"0", b"-1", b"%d" % (now_ms + HOUR_MS)))]
        if self.random.random() < 0.3:
            command += [b"RETRYCOUNT", b"%d" % self.random.choice((0, 1, 5, 63, 64, 2**14, 2**31, 2**62))]
        command += [word for word in (b"FORCE", b"JUSTID") if self.random.random() < 0.3]
        return [tuple(command)]

    def _xautoclaim(self, stream: Stream, _: int) -> list[Command]:
        command = [b"XAUTOCLAIM", KEY, self._group(stream), self.random.choice(CONSUMERS), self._min_idle()]
        command.append(self.random.choice((b"0", b"-", self._some_id(stream))))
        if self.random.random() < 0.7:
            command += [b"COUNT", b"%d" % self.random.choice((1, 2, 5, 30))]
        if self.random.random() < 0.3:
            command.append(b"JUSTID")
        return [tuple(command)]


# --- what the bytes of a node say, read independently of the structures ------------------------------------------


def stored_entries(master: StreamID, listpack: bytes) -> list[tuple[StreamID, bool]]:
    """List every entry of a node with whether it is alive, tombstones included."""
    elements = list(Listpack.from_bytes(listpack))
    fields = int(elements[2])
    at = 4 + fields
    entries = []
    while at < len(elements):
        flags, ms, seq = (int(each) for each in elements[at : at + 3])
        entry_id = StreamID((master.ms + ms) % 2**64, (master.seq + seq) % 2**64)
        entries.append((entry_id, not flags & 1))
        at += 4 + fields if flags & 2 else 5 + 2 * int(elements[at + 3])
    return entries


def last_stored_id(stream: Stream) -> StreamID:
    """Return the ID of the physically last entry, tombstone or not; 0-0 where there is none."""
    nodes = list(stream.nodes())
    return stored_entries(*nodes[-1])[-1][0] if nodes else MIN_ID


def leaves_dead_node(stream: Stream, min_id: StreamID) -> bool:
    """Tell whether trimming exactly to this ID deletes the last live entry of a node that ends in a later tombstone."""
    for master, listpack in stream.nodes():
        entries = stored_entries(master, listpack)
        if entries[-1][0] >= min_id:
            return not any(alive and entry_id >= min_id for entry_id, alive in entries)
    return False
