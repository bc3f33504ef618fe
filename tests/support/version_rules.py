"""What Redis 7.0.15 answers otherwise than the later versions that Headrace follows, and what two clocks do.

Each rule is a function named for what differs, with the section of docs/behaviour.md that it concerns. It is shown a
command and both replies, in the notation of `raw_client.parse`, and rewrites them so that nothing else is forgiven:
texts are exchanged only for the one other text, fields are dropped only by name, times must be near each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.core.stream_id import StreamID
from headrace.formats.errors import CorruptPayload
from headrace.formats.stream_value import restore_stream
from support.read_counters import Counted, RulesOf70, RulesOfToday
from support.xinfo import describe, take_times

# Two clocks read a moment apart; every other time that a command names is a whole hour away.
NEAR_MS = 900_000

INVALID_ID = "-ERR Invalid stream ID specified as stream command argument"


@dataclass
class Exchange:
    """One command, and what both servers said to it."""

    command: list[bytes]
    theirs: Any
    ours: Any
    state: Callable[[bytes], Counted]  # of the stream under a key, as it is now

    @property
    def name(self) -> str:
        """Return the name of the command, with its subcommand where it has some."""
        words = [word.decode("latin-1").lower() for word in self.command[:2]]
        return "|".join(words) if words[0] in {"xinfo", "xgroup", "object"} else words[0]

    @property
    def is_full(self) -> bool:
        """Whether it is XINFO STREAM with FULL, which tells times; without it there are only counts."""
        return self.name == "xinfo|stream" and len(self.command) > 3


def unbalanced_streams(exchange: Exchange) -> None:
    """4.4: the sentence has named the command since 7.2, and the `+` of XREAD since 7.4."""
    today = {
        "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
        "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
    }
    if isinstance(exchange.ours, str) and exchange.ours in today:
        exchange.ours = "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."


def full_millisecond(exchange: Exchange) -> None:
    """1.5: `<ms>-*` behind the last sequence number of that millisecond."""
    if exchange.name == "xadd" and exchange.theirs == "-ERR Elements are too large to be stored":
        exchange.theirs = "-ERR The ID specified in XADD is equal or smaller than the target stream top item"


XSETID_BELOW_DELETED = "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"


def xsetid_below_deleted(exchange: Exchange) -> None:
    """4.12: 7.0 does not look at what was deleted, only at the last entry there is; `Twins` then brings it back."""
    top_item = "-ERR The ID specified in XSETID is smaller than the target stream top item"
    if exchange.name == "xsetid" and exchange.ours == XSETID_BELOW_DELETED and exchange.theirs in ("+OK", top_item):
        exchange.ours = exchange.theirs


def help_body(exchange: Exchange) -> None:
    """4.6: the lines between the header and HELP are of the version, and the last one was "Prints this help."."""
    if exchange.name in {"xgroup|help", "xinfo|help"} and isinstance(exchange.ours, list):
        exchange.ours = exchange.ours[:2] + exchange.ours[-2:-1]
        exchange.theirs = exchange.theirs[:2] + exchange.theirs[-2:-1]


def short_encoding(exchange: Exchange) -> None:
    """Not of streams: a short list or set has been a listpack since 7.2."""
    if exchange.name == "object|encoding" and exchange.ours == "$listpack":
        assert exchange.theirs in ("$quicklist", "$hashtable")
        exchange.ours = exchange.theirs


# --- XINFO -----------------------------------------------------------------------------------------------------------

NEWER_FIELDS = {
    *("$idmp-duration", "$idmp-maxsize", "$pids-tracked", "$iids-tracked", "$iids-added", "$iids-duplicates"),
    *("$nacked-count", "$active-time", "$inactive"),
}


def newer_fields(exchange: Exchange) -> None:
    """9: fields of XINFO that 7.2, 8.6 and 8.8 added."""
    if exchange.name.startswith("xinfo|"):
        exchange.ours = _without(exchange.ours, NEWER_FIELDS)


def _without(reply: Any, names: set[str]) -> Any:
    if not isinstance(reply, list):
        return reply
    mark, *items = reply
    if mark == "%" or (items and items[0] in ("$name", "$length")):
        pairs = zip(items[::2], items[1::2], strict=True)
        return [mark, *(each for name, value in pairs if name not in names for each in (name, _without(value, names)))]
    return [mark, *(_without(item, names) for item in items)]


def lag(exchange: Exchange) -> None:
    """5.5: corrected after 7.0; each server is held to its own rules, from the counts that it shows."""
    if not (exchange.is_full or exchange.name == "xinfo|groups") or not isinstance(exchange.ours, list):
        return
    state = exchange.state(exchange.command[2])
    exchange.ours = _without_lag(exchange.ours, state, RulesOfToday)
    exchange.theirs = _without_lag(exchange.theirs, state, RulesOf70)


def _without_lag(reply: Any, state: Counted, rules: type[RulesOf70] | type[RulesOfToday]) -> Any:
    if not isinstance(reply, list):
        return reply
    mark, *items = reply
    if "$lag" in items:
        group = dict(zip(map(str, items[::2]), items[1::2], strict=True))
        read = integer(group["$entries-read"])
        expected = rules.lag(state, read, StreamID.parse(group["$last-delivered-id"][1:].encode()))
        assert integer(group["$lag"]) == expected, f"{rules.__name__}: lag {group['$lag']} of {group} and {state}"
        return [mark, *(item for pair in group.items() if pair[0] != "$lag" for item in pair)]
    return [mark, *(_without_lag(item, state, rules) for item in items)]


def integer(reply: str) -> int | None:
    """Return the number that a reply is; None for nil."""
    return int(reply[1:]) if reply[0] == ":" else None


# --- clocks ----------------------------------------------------------------------------------------------------------


def times_of_records(exchange: Exchange) -> None:
    """Delivery times, seen times and idle times: near each other."""
    if exchange.name in {"xpending", "xinfo|consumers"} or exchange.is_full:
        exchange.ours = _near(exchange.theirs, exchange.ours)


def times_to_live(exchange: Exchange) -> None:
    """The time that a key has left, or its end: near each other."""
    if exchange.name in {"ttl", "pttl", "expiretime", "pexpiretime"}:
        exchange.ours = _near(exchange.theirs, exchange.ours)


def _near(theirs: Any, ours: Any) -> Any:
    """Take theirs for ours where both are lists of the same shape with integers near each other, but for counts."""
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return list(map(_near, theirs, ours))
    if isinstance(theirs, str) and isinstance(ours, str) and theirs[:1] == ours[:1] == ":":
        a, b = int(theirs[1:]), int(ours[1:])
        # Counts are smaller than any time that is not "now", and are compared as they are.
        if min(a, b) >= 0 and abs(a - b) < NEAR_MS:
            return theirs
    return ours


# --- order and bytes -------------------------------------------------------------------------------------------------


def order_of_keys(exchange: Exchange) -> None:
    """No order of keys is promised."""
    if exchange.name in {"keys", "scan"} and isinstance(exchange.ours, list):
        exchange.ours = _sorted_keys(exchange.ours)
        exchange.theirs = _sorted_keys(exchange.theirs)


def _sorted_keys(reply: list[Any]) -> list[Any]:
    if len(reply) == 3 and isinstance(reply[2], list):
        return [*reply[:2], _sorted_keys(reply[2])]
    return [reply[0], *sorted(reply[1:])]


def payload(exchange: Exchange) -> None:
    """7.6: another version of the same value; for a stream, all that XINFO would say of it."""
    if exchange.name == "dump" and exchange.ours != exchange.theirs:
        exchange.ours = _value(exchange.ours)
        exchange.theirs = _value(exchange.theirs)


def _value(reply: str) -> Any:
    payload = reply[1:].encode("latin-1")
    try:
        info = describe(restore_stream(payload))
    except CorruptPayload:
        return sorted(payload[:-10])  # of another type, perhaps a set: in any order, without version and checksum
    take_times(info)
    for group in info[b"groups"]:
        del group[b"lag"]
    return info


Rules = tuple[Callable[[Exchange], None], ...]
RULES: Rules = (
    *(unbalanced_streams, full_millisecond, xsetid_below_deleted, help_body, short_encoding, newer_fields, lag),
    *(times_of_records, times_to_live, order_of_keys, payload),
)


def assert_agreement(exchange: Exchange, rules: Rules = RULES) -> None:
    """Fail unless both replies are equal, or are so by the rules."""
    if exchange.theirs != exchange.ours:
        for rule in rules:
            rule(exchange)
        assert exchange.ours == exchange.theirs, f"Headrace {exchange.ours}\nRedis    {exchange.theirs}"
