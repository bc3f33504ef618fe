"""The same client twice: of Headrace, and of a redis-server 7.0.15 that is told what later versions would have done.

    a consumer exists although it was given nothing (since 7.2, docs/behaviour.md 4.5) XGROUP CREATECONSUMER
    entries-read counts as since 8.0 and is at most entries-added (8.2.2, 5.4)         XGROUP SETID … ENTRIESREAD
    XSETID goes below no deleted ID (4.12)                                             XSETID, back

Commands after which 7.0.15 cannot be corrected like this are not sent: see `may_be_asked`.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from headrace.core.errors import InvalidStreamID
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.stream_value import restore_stream
from support.history import last_stored_id, leaves_dead_node
from support.random_commands import HOUR_MS, Command
from support.raw_client import RawClient, parse
from support.read_counters import Counted, RulesOf70, RulesOfToday
from support.version_rules import RULES, XSETID_BELOW_DELETED, Exchange, assert_agreement, integer

WAITS_MS = {b"1", b"2", b"5"}
NEW = {b">", b"18446744073709551615-18446744073709551615"}
CREATE_CONSUMERS = {b"xreadgroup", b"xclaim", b"xautoclaim"}


class Twins:
    """One client of each server, in the same protocol, database and transaction."""

    def __init__(self, headrace_port: int, redis_port: int, protocol: int) -> None:
        self.ours = RawClient(headrace_port)
        self.theirs = RawClient(redis_port)
        self.queued: list[Command] | None = None
        self.rules = RULES
        for client in (self.ours, self.theirs):
            client.run("HELLO", protocol)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    # --- asking both -------------------------------------------------------------------------------------------

    def ask(self, command: Command) -> Any:
        """Send a command to both, compare, and tell 7.0.15 what is to be told; the reply, parsed."""
        reading = None
        if self.queued is None:
            reading = self._reading(command)
        elif command[0].lower() in CREATE_CONSUMERS:
            for words in creations(command):
                self.ask(words)
        self.ours.send(command)
        self.theirs.send(command)
        ours, theirs = self.ours.reply(), self.theirs.reply()
        reply = parse(theirs)
        if self.queued is not None and reply == "+QUEUED" and ours == theirs:
            self.queued.append(command)
            return reply
        self._compare(command, parse(ours), reply)
        if self.queued is None:
            self._tell_consumers(command, reply)
            self._tell_xsetid(command, parse(ours), reply)
            if reading is not None:
                reading.check(self, reply)
            self._tell_entries_read(command)
        name = command[0].lower()
        if name == b"multi" and reply == "+OK":
            self.queued = []
        elif name in (b"exec", b"discard"):
            self.queued = None
        return reply

    def _compare(self, command: Command, ours: Any, theirs: Any) -> None:
        if command[0].lower() == b"exec" and isinstance(theirs, list) and isinstance(ours, list):
            queued, self.queued = self.queued, None
            assert len(ours) == len(theirs) == len(queued or []) + 1
            for inner, our_reply, their_reply in zip(queued or [], ours[1:], theirs[1:], strict=True):
                assert_agreement(Exchange(inner, their_reply, our_reply, self.state), self.rules)
        else:
            assert_agreement(Exchange(command, theirs, ours, self.state), self.rules)

    # --- what 7.0.15 is told -----------------------------------------------------------------------------------

    def _tell_consumers(self, command: Command, reply: Any) -> None:
        """4.5, 4.15: a consumer exists even if it was given nothing."""
        if command[0].lower() in CREATE_CONSUMERS and (isinstance(reply, list) or reply in ("*-1", "_")):
            for words in creations(command):
                self.theirs.run(*words)

    def _tell_xsetid(self, command: Command, ours: Any, theirs: Any) -> None:
        """4.12: 7.0.15 goes below a deleted ID; it is brought back."""
        if command[0].lower() == b"xsetid" and theirs == "+OK" and ours == XSETID_BELOW_DELETED:
            info = pairs(parse(self.ours.run("XINFO", "STREAM", command[1])))
            counters = ("ENTRIESADDED", info["$entries-added"][1:], "MAXDELETEDID", info["$max-deleted-entry-id"][1:])
            self.theirs.run("XSETID", command[1], info["$last-generated-id"][1:], *counters)

    def _tell_entries_read(self, command: Command) -> None:
        """5.4: a count above entries-added is capped."""
        if command[0].lower() in (b"xgroup", b"xsetid"):
            for key in command[1:3]:
                self.align_counts(key, capped=True)

    def align_counts(self, key: bytes, *, capped: bool) -> None:
        """Give 7.0.15 our entries-read of every group of a stream; where only the cap may differ, check that."""
        ours = groups_of(self.ours, key)
        theirs = groups_of(self.theirs, key)
        assert ours.keys() == theirs.keys()
        for name, group in theirs.items():
            before, read = integer(group["$entries-read"]), integer(ours[name]["$entries-read"])
            if before == read:
                continue
            if capped:
                assert before is not None, f"entries-read of {name} under {key!r}: {read} here"
                assert read == min(before, self.state(key).added), f"{key!r}: {group} here {ours[name]}"
            count = -1 if read is None else read
            last = group["$last-delivered-id"][1:]
            self.theirs.run("XGROUP", "SETID", key, name[1:].encode("latin-1"), last, "ENTRIESREAD", count)

    def _reading(self, command: Command) -> "Reading | None":
        """Look at the counts before a group reads what is new."""
        if command[0].lower() != b"xreadgroup":
            return None
        return Reading(self, command)

    # --- looking -----------------------------------------------------------------------------------------------

    def list_keys(self) -> list[bytes]:
        """List the keys of the database, as 7.0.15 has them."""
        return sorted(key[1:].encode("latin-1") for key in parse(self.theirs.run("KEYS", "*"))[1:])

    def state(self, key: bytes) -> Counted:
        """Return what the rules of lag look at, as Headrace has it."""
        info = pairs(parse(self.ours.run("XINFO", "STREAM", key)))
        return Counted(
            int(info["$length"][1:]),
            stream_id(info["$recorded-first-entry-id"]),
            stream_id(info["$last-generated-id"]),
            stream_id(info["$max-deleted-entry-id"]),
            int(info["$entries-added"][1:]),
        )

    def may_be_asked(self, command: Command) -> bool:
        """Whether to send a command to both: not if the clock decides its reply, or if the states would then differ."""
        words = [word.lower() for word in command]
        name, inside = words[0], self.queued is not None
        if b"block" in words and not set(words[words.index(b"block") + 1 :][:1]) <= WAITS_MS:
            return False  # nobody waits for ever
        if name == b"xadd" and b"*" in words:
            return not inside and self._is_beyond_the_clock(command[1])
        compares = name in (b"expire", b"pexpire") and {b"gt", b"lt"} & set(words[3:])
        if compares and (inside or not self._never_expires(command[1])):
            return False
        if name in (b"expire", b"pexpire", b"restore") and len(words) > 2 and words[2].isdigit():
            # Nothing expires while it is looked at; and a RESTORE for longer than time lasts overflows in Redis.
            return words[2] == b"0" or HOUR_MS // 1000 <= int(words[2]) < 2**62
        if name == b"scan":
            return words[:4] == [b"scan", b"0", b"count", b"1000"]
        if inside and (name in (b"dump", b"xsetid") or words[:2] == [b"xinfo", b"groups"] or b"full" in words):
            return False  # counts are only told to 7.0.15 after the transaction
        if name in (b"xadd", b"xtrim") and b"minid" in words and b"~" not in words:
            return not inside and not self._leaves_dead_node(command)
        if name == b"xsetid":  # 1.5: entries-added stops at 2^63-1, where 7.0 goes on
            return b"9223372036854775807" not in words and not self._goes_below_a_tombstone(command)
        return True

    def _is_beyond_the_clock(self, key: bytes) -> bool:
        reply = parse(self.theirs.run("XINFO", "STREAM", key))
        if not isinstance(reply, list):
            return False
        return stream_id(pairs(reply)["$last-generated-id"]).ms > time.time() * 1000 + HOUR_MS

    def _never_expires(self, key: bytes) -> bool:
        """Whether GT and LT have one answer: compared with a time set a moment ago, each server's clock decides."""
        return int(parse(self.theirs.run("PTTL", key))[1:]) < 0

    def _leaves_dead_node(self, command: Command) -> bool:
        """2.6: before 8.8 a node may outlive its last entry when trimmed by ID."""
        stream = self._stream(command[1:2])
        if stream is None:
            return False
        for word in command[2:]:
            with suppress(InvalidStreamID):
                if leaves_dead_node(stream, StreamID.parse(word)):
                    return True
        return False

    def _goes_below_a_tombstone(self, command: Command) -> bool:
        """Headrace takes no last ID below a deleted entry that is still stored, even if MAXDELETEDID was lowered."""
        stream = self._stream(command[1:2])
        if stream is None:
            return False
        with suppress(InvalidStreamID):
            for word in command[2:3]:
                return stream.max_deleted_id <= StreamID.parse(word) < last_stored_id(stream)
        return False

    def _stream(self, key: list[bytes]) -> Stream | None:
        """Return the stream that 7.0.15 has under a key."""
        if not key or parse(self.theirs.run("TYPE", *key)) != "+stream":
            return None
        return restore_stream(parse(self.theirs.run("DUMP", *key))[1:].encode("latin-1"))


class Reading:
    """What a group had read before an XREADGROUP, so that its counts can be foretold by the rules of each version."""

    def __init__(self, twins: Twins, command: Command) -> None:
        self.group, _, keys, ids = read_arguments(command)
        self.keys = [key for key, behind in zip(keys, ids, strict=True) if behind in NEW]
        self.foretold = len(set(keys)) == len(keys)
        self.before = {key: groups_of(twins.theirs, key).get(self._name) for key in self.keys}

    @property
    def _name(self) -> str:
        return "$" + self.group.decode("latin-1")

    def check(self, twins: Twins, reply: Any) -> None:
        if not isinstance(reply, list):
            return
        served = streams_of(reply)
        for key in self.keys:
            group = self.before[key]
            if self.foretold and group is not None:
                ids = served.get(key, [])
                for client, rules in ((twins.ours, RulesOfToday), (twins.theirs, RulesOf70)):
                    read = integer(group["$entries-read"])
                    last = stream_id(group["$last-delivered-id"])
                    state = twins.state(key)
                    for entry_id in ids:
                        read, last = rules.deliver(state, read, last, entry_id), entry_id
                    shown = integer(groups_of(client, key)[self._name]["$entries-read"])
                    assert shown == read, (
                        f"{rules.__name__}: {read} read of {key!r} after {ids} on {group}, {state}, not {shown}"
                    )
            twins.align_counts(key, capped=False)


def read_arguments(command: Command) -> tuple[bytes, bytes, list[bytes], list[bytes]]:
    """Return group, consumer, keys and IDs of an XREADGROUP, empty where it has no such thing."""
    words = [word.lower() for word in command]
    if b"group" not in words[:-2] or b"streams" not in words:
        return b"", b"", [], []
    at = words.index(b"group")
    first = words.index(b"streams", at + 3 if b"streams" in words[at + 3 :] else 0) + 1
    count = (len(words) - first) // 2
    return command[at + 1], command[at + 2], command[first : first + count], command[first + count : first + 2 * count]


def creations(command: Command) -> list[Command]:
    """Write what creates the consumers that a command names."""
    if command[0].lower() == b"xreadgroup":
        group, consumer, keys, _ = read_arguments(command)
    elif len(command) > 3:
        key, group, consumer = command[1:4]
        keys = [key]
    else:
        keys = []
    return [[b"XGROUP", b"CREATECONSUMER", key, group, consumer] for key in keys]


def pairs(reply: Any) -> dict[str, Any]:
    """Make a dictionary of a map, or of a flat list of names and values."""
    return dict(zip(reply[1::2], reply[2::2], strict=True))


def groups_of(client: RawClient, key: bytes) -> dict[str, dict[str, Any]]:
    reply = parse(client.run("XINFO", "GROUPS", key))
    return {group["$name"]: group for group in map(pairs, reply[1:])} if isinstance(reply, list) else {}


def streams_of(reply: list[Any]) -> dict[bytes, list[StreamID]]:
    """Return the IDs that XREADGROUP gave of each stream."""
    served: Iterable[tuple[Any, Any]]
    if reply[0] == "%":
        served = zip(reply[1::2], reply[2::2], strict=True)
    else:
        served = ((stream[1], stream[2]) for stream in reply[1:])
    return {key[1:].encode("latin-1"): [stream_id(entry[1]) for entry in entries[1:]] for key, entries in served}


def stream_id(reply: str) -> StreamID:
    return StreamID.parse(reply[1:].encode())
