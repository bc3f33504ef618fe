"""Answers the command lines of a history from a Stream, in the shape of redis's replies.

Nothing here is the product's command layer: it is the shortest way from a line of a history to one call of the
structures, so that a difference in a reply is a difference in a structure.
"""

from dataclasses import dataclass
from typing import Any

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import GroupExists, InvalidStreamState, StreamExhausted, StreamIDTooSmall
from headrace.core.group import Group
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID, parse_lax
from support.history import Command, Limits


@dataclass(frozen=True)
class Refusal:
    """A command that was refused, and why."""

    reason: str


NO_GROUP = Refusal("no such group")


class StreamFace:
    """One stream and the commands that histories are made of."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.node_limits = NodeLimits(limits.max_bytes, limits.max_entries)
        self.stream = Stream(self.node_limits)

    def execute(self, command: Command, now_ms: int) -> Any:
        """Give what redis would reply to the command at this time."""
        name, *words = command
        if name == b"XGROUP":
            name, *words = [b"XGROUP " + words[0], *words[1:]]
        try:
            return getattr(self, name.decode().lower().replace(" ", "_"))(words, now_ms)
        except (StreamIDTooSmall, StreamExhausted, GroupExists, InvalidStreamState) as error:
            return Refusal(type(error).__name__)

    # --- entries -----------------------------------------------------------------------------------------------

    def xadd(self, words: list[bytes], now_ms: int) -> bytes:
        trimming, (entry_id, *fields) = _take_trimming(words[1:])
        # Never right, whatever the stream: refused before it is looked at.
        if entry_id in (b"0", b"0-0"):
            raise StreamIDTooSmall(entry_id)
        reply = bytes(self.stream.append(fields, entry_id, now_ms))
        if trimming:
            self._trim(trimming)
        return reply

    def xdel(self, words: list[bytes], _: int) -> int:
        return self.stream.delete(words[1:])

    def xtrim(self, words: list[bytes], _: int) -> int:
        return self._trim(words[1:])

    def _trim(self, words: list[bytes]) -> int:
        strategy, *rest = words
        approximate = rest[0] == b"~"
        if rest[0] in (b"~", b"="):
            rest.pop(0)
        threshold, *rest = rest
        limit = self.limits.approximate_limit if approximate else 0
        if rest:
            limit = int(rest[1])
        if strategy == b"MAXLEN":
            return self.stream.trim_to_length(int(threshold), approximate, limit)
        return self.stream.trim_to_id(threshold, approximate, limit)

    def xsetid(self, words: list[bytes], _: int) -> bytes:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        added = options.get(b"ENTRIESADDED")
        self.stream.set_id(words[1], None if added is None else int(added), options.get(b"MAXDELETEDID"))
        return b"OK"

    # --- groups ------------------------------------------------------------------------------------------------

    def xgroup_create(self, words: list[bytes], _: int) -> bytes:
        name, entry_id, *options = words[1:]
        self.stream.create_group(name, entry_id, _position(options))
        return b"OK"

    def xgroup_setid(self, words: list[bytes], _: int) -> bytes | Refusal:
        name, entry_id, *options = words[1:]
        group = self.stream.group(name)
        if group is None:
            return NO_GROUP
        group.set_id(entry_id, _position(options))
        return b"OK"

    def xgroup_destroy(self, words: list[bytes], _: int) -> int:
        return int(self.stream.destroy_group(words[1]))

    def xgroup_createconsumer(self, words: list[bytes], now_ms: int) -> int | Refusal:
        group = self.stream.group(words[1])
        return NO_GROUP if group is None else int(group.create_consumer(words[2], now_ms))

    def xgroup_delconsumer(self, words: list[bytes], _: int) -> int | Refusal:
        group = self.stream.group(words[1])
        return NO_GROUP if group is None else group.delete_consumer(words[2])

    def xreadgroup(self, words: list[bytes], now_ms: int) -> Any:
        _, name, consumer, *rest = words
        *options, _, key, after = rest
        group = self.stream.group(name)
        if group is None:
            return NO_GROUP
        count = int(options[options.index(b"COUNT") + 1]) if b"COUNT" in options else 0
        if after == b">":
            entries: Any = group.read_new(consumer, now_ms, count, b"NOACK" in options)
            return [[key, [[bytes(entry_id), fields] for entry_id, fields in entries]]] if entries else None
        entries = group.read_history(consumer, after, now_ms, count)
        return [[key, [[bytes(entry_id), fields] for entry_id, fields in entries]]]

    def xack(self, words: list[bytes], _: int) -> int:
        group = self.stream.group(words[1])
        return 0 if group is None else group.acknowledge(words[2:])

    def xclaim(self, words: list[bytes], now_ms: int) -> Any:
        _, name, consumer, min_idle, *rest = words
        group = self.stream.group(name)
        if group is None:
            return NO_GROUP
        ids = rest[: next((i for i, word in enumerate(rest) if word.isalpha()), len(rest))]
        options = rest[len(ids) :]
        time_ms = None
        if b"IDLE" in options:
            time_ms = now_ms - int(options[options.index(b"IDLE") + 1])
        if b"TIME" in options:
            time_ms = int(options[options.index(b"TIME") + 1])
        deliveries = int(options[options.index(b"RETRYCOUNT") + 1]) if b"RETRYCOUNT" in options else None
        just_id = b"JUSTID" in options
        claimed = group.claim(
            consumer,
            ids,
            int(min_idle),
            now_ms,
            time_ms=time_ms,
            deliveries=deliveries,
            force=b"FORCE" in options,
            just_id=just_id,
        )
        return self._claimed(claimed, just_id)

    def xautoclaim(self, words: list[bytes], now_ms: int) -> Any:
        _, name, consumer, min_idle, start, *options = words
        group: Group | None = self.stream.group(name)
        if group is None:
            return NO_GROUP
        count = int(options[options.index(b"COUNT") + 1]) if b"COUNT" in options else 100
        just_id = b"JUSTID" in options
        following, claimed, deleted = group.auto_claim(
            consumer, int(min_idle), parse_lax(start), now_ms, count, just_id
        )
        return [bytes(following), self._claimed(claimed, just_id), [bytes(entry_id) for entry_id in deleted]]

    def _claimed(self, ids: list[StreamID], just_id: bool) -> list[Any]:
        return [bytes(entry_id) if just_id else [bytes(entry_id), self.stream.get(entry_id)] for entry_id in ids]


def _position(options: list[bytes]) -> int | None:
    position = int(options[1]) if options else -1
    return None if position == -1 else position


def _take_trimming(words: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Split what stands before the ID of an XADD from the rest."""
    if words[0] not in (b"MAXLEN", b"MINID"):
        return [], words
    size = 3 if words[1] in (b"~", b"=") else 2
    if words[size] == b"LIMIT":
        size += 2
    return words[:size], words[size:]
