"""Random command lines for every command of the table that writes, from its own syntax.

Values are chosen by the name that the syntax gives them, so that most commands find something: keys of the family that
the command is about, IDs that were given out, groups that exist. A command that is added to the table is written from
then on without a change here. A name without values here is a failure (`UnknownArgument`), so that none is forgotten.
"""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from headrace.commands.all import TABLE
from headrace.commands.declaration.syntax import Argument, arguments_of
from headrace.engine.command import Command, Flag
from headrace.formats.dump import seal
from support.packed_rows import numbered, packed

Line = list[bytes]

KEYS: Final = {
    "stream": (b"s1", b"s1", b"s1", b"s2", b"s2", b"s3"),
    "headrace": (b"s1", b"s1", b"s2"),
    "string": (b"t1", b"t2", b"t3"),
    "hyperloglog": (b"p1", b"p2"),
    "bitmap": (b"t1", b"t2", b"t3"),
    "list": (b"l1", b"l2"),
    "set": (b"e1", b"e2"),
    "sorted-set": (b"z1", b"z2", b"headrace:{s1}:scheduled"),
    "geo": (b"g1", b"g2"),
    "hash": (b"h1", b"h2", b"headrace:{s1}:batches", b"headrace:{s1}:messages"),
}
EVERY_KEY: Final = tuple(key for keys in KEYS.values() for key in keys)
GROUPS: Final = (b"g", b"g", b"h")
CONSUMERS: Final = (b"alice", b"bob", b"carol")
MEMBERS: Final = (b"a", b"b", b"c", b"1", b"2", b"-7", b"x" * 70, b"\x00\r\n")
NUMBERS: Final = (b"0", b"1", b"1", b"2", b"3", b"5", b"-1", b"10")
SCORES: Final = (b"0", b"1", b"1.5", b"-3", b"0.1", b"1e3", b"inf")
LIBRARIES: Final = tuple(
    b"#!lua name=lib%d\nredis.register_function('f%d', function(keys, args) return %d end)" % (name, name, result)
    for name in (1, 2)
    for result in (1, 2)
)
WEIGHTS: Final = {
    **dict.fromkeys((b"flushall", b"flushdb", b"swapdb", b"function|flush", b"xgroup|destroy"), 0.1),
    **dict.fromkeys((b"xgroup|delconsumer", b"del", b"unlink", b"rename", b"move"), 0.4),
    b"xadd": 25,
    b"xreadgroup": 10,
    b"xgroup|create": 3,
    b"xclaim": 4,
    b"xtrim": 3,
    b"xack": 2,
    b"xsetid": 3,
    b"xautoclaim": 2,
    b"xnack": 3,
    b"headrace|stage": 3,
    b"headrace|commit": 2,
    b"headrace|policy": 8,
}
QUERIES: Final = (b"q1", b"q2")


class UnknownArgument(AssertionError):
    """The syntax of a command has a name for which there are no values here."""


def writing_commands() -> Iterator[Command]:
    """Every command that may change data, subcommands by themselves."""
    for found in TABLE.values():
        for each in found.subcommands.values() or (found,):
            if each.flags & Flag.WRITE:
                yield each


_COMMANDS: Final = {command.name: command for command in writing_commands()}
_ARGUMENTS: Final = {name: arguments_of(command.syntax) for name, command in _COMMANDS.items()}
_NAMES: Final = list(_COMMANDS)
_WEIGHTS: Final = [
    WEIGHTS.get(name, 2 if command.group in ("stream", "headrace") else 0.5) for name, command in _COMMANDS.items()
]


class AnyCommand:
    """Writes lines; the clock is the engine's, for times that are near."""

    def __init__(self, chance: Random, now_ms: Callable[[], int]) -> None:
        self.random = chance
        self.now_ms = now_ms
        self.ids: deque[bytes] = deque([b"1-1"], maxlen=30)
        self.payloads: deque[bytes] = deque(maxlen=8)
        self._group = ""

    # --- lines -----------------------------------------------------------------------------------------------------

    def write(self) -> Line:
        """Write a line of any command."""
        (name,) = self.random.choices(_NAMES, _WEIGHTS)
        return self.line(name)

    def line(self, name: bytes) -> Line:
        """Write a line of one command."""
        special = _SPECIAL.get(name)
        self._group = _COMMANDS[name].group
        words = special(self) if special is not None else list(self._sequence(_ARGUMENTS[name]))
        return [*name.upper().split(b"|"), *words]

    def learn(self, ids: Iterator[bytes]) -> None:
        """Remember IDs that entries have."""
        self.ids.extend(ids)

    def pick(self, *choices: bytes) -> bytes:
        return self.random.choice(choices)

    def chance(self, likelihood: float) -> bool:
        return self.random.random() < likelihood

    # --- arguments -------------------------------------------------------------------------------------------------

    def _sequence(self, arguments: tuple[Argument, ...]) -> Iterator[bytes]:
        numbers_at: int | None = None
        words: Line = []
        for argument in arguments:
            if argument.optional and not self.chance(0.3):
                continue
            times = self.random.choice((1, 1, 2, 3)) if argument.multiple else 1
            if argument.name in ("numkeys", "numids"):
                numbers_at = len(words) + (argument.token is not None)
            before = len(words)
            for _ in range(times):
                words += self._one(argument)
            if numbers_at is not None and argument.name in ("key", "id"):
                words[numbers_at] = b"%d" % (len(words) - before)
                numbers_at = None
        yield from words

    def _one(self, argument: Argument) -> Iterator[bytes]:
        if argument.kind == "pure-token":
            yield str(argument.token).encode()
            return
        if argument.token is not None:
            yield argument.token.encode()
        if argument.kind == "oneof":
            yield from self._one(self.random.choice(argument.inner))
        elif argument.kind == "block":
            yield from self._sequence(argument.inner)
        else:
            values = _VALUES.get(argument.name)
            if values is None:
                raise UnknownArgument(f"no values for {argument.name!r}: add them to any_command._VALUES")
            yield values(self)

    def key(self, group: str | None = None) -> bytes:
        """A key of a family, or now and then of another."""
        keys = KEYS.get(group or self._group, EVERY_KEY)
        return self.random.choice(EVERY_KEY if self.chance(0.03) else keys)

    def new_id(self) -> bytes:
        """An ID for a new entry: of now, near one that there is, or far ahead."""
        ms = int(self.ids[-1].split(b"-")[0])
        return self.pick(b"*", b"*", b"*", b"%d-*" % (ms + 1), b"%d-%d" % (ms + self.random.randint(0, 2), 5))

    def id(self) -> bytes:
        return self.random.choice(self.ids)

    def soon_ms(self) -> int:
        return self.random.choice((1, 500, 3_000, 100_000, 86_400_000))

    def text(self) -> bytes:
        if self.chance(0.5):
            return b"%d" % self.random.choice((0, 1, -1, 7, 128, 10**12))
        return self.random.choice((b"v", b"3.5", b"text", b"\x00\xff\r\n", b"y" * self.random.choice((64, 300))))


# --- values by name ------------------------------------------------------------------------------------------------

Values = Callable[[AnyCommand], bytes]


def _of(*choices: bytes) -> Values:
    return lambda writer: writer.random.choice(choices)


_NUMBER: Final = _of(*NUMBERS)
_VALUES: Final[dict[str, Values]] = {
    **dict.fromkeys(("key", "newkey", "source", "destination", "destkey", "sourcekey"), lambda writer: writer.key()),
    **dict.fromkeys(("field", "member", "element", "pivot"), _of(*MEMBERS)),
    **dict.fromkeys(("value", "text"), lambda writer: writer.text()),
    **dict.fromkeys(("count", "limit", "rank", "offset", "len", "increment", "decrement", "entries-read"), _NUMBER),
    **dict.fromkeys(("index", "start", "stop", "numkeys", "numids", "min", "max"), _NUMBER),
    **dict.fromkeys(("id", "last-id", "max-deleted-id"), lambda writer: writer.id()),
    **dict.fromkeys(("seconds",), lambda writer: b"%d" % (writer.soon_ms() // 1000 + 1)),
    **dict.fromkeys(("milliseconds", "ttl", "ms"), lambda writer: b"%d" % writer.soon_ms()),
    **dict.fromkeys(
        ("unix-time-milliseconds", "unix-ms", "seen-time", "active-time"),
        lambda writer: b"%d" % (writer.now_ms() + writer.random.choice((-5_000, 500, 60_000, 10**8))),
    ),
    "unix-time-seconds": lambda writer: b"%d" % (writer.now_ms() // 1000 + writer.random.choice((-5, 2, 60, 10**5))),
    **dict.fromkeys(("longitude", "latitude"), _of(b"0", b"13.361389", b"-38.115556", b"85")),
    **dict.fromkeys(("radius", "width", "height"), _of(b"0", b"200", b"9000")),
    "group": _of(*GROUPS),
    "consumer": _of(*CONSUMERS),
    "producer": _of(b"p", b"p", b"q"),
    "identity": _of(b"1", b"copy-2"),
    "idempotent-id": _of(b"1", b"2", b"3", b"4"),
    "entries-added": _of(b"0", b"5", b"100"),
    "min-idle-time": _of(b"0", b"0", b"500", b"90000"),
    "score": _of(*SCORES),
    "weight": _of(*SCORES),
    "timeout": _of(b"0.001", b"0.1", b"3"),
    "db": _of(b"0", b"1"),
    "destination-db": _of(b"0", b"1"),
    "index1": _of(b"0", b"1"),
    "index2": _of(b"0", b"1"),
    "frequency": _of(b"5"),
    "duration": _of(b"1", b"3", b"100", b"900"),
    "ticket": lambda writer: b"%013d-0000" % writer.now_ms(),
    "maxsize": _of(b"1", b"2", b"3", b"200"),
    "query": _of(*QUERIES),
    "batch": _of(b"1", b"2", b"3"),
    "partition": _of(b"0", b"0", b"1"),
    "parts": _of(b"1", b"1", b"2"),
    "entries": _of(b"0", b"2"),
    "threshold": _of(b"2", b"5"),
    "function-code": _of(*LIBRARIES),
    "library-name": _of(b"lib1", b"lib2"),
    "serialized-value": _of(*(seal(b"\xf5\x40%c%s" % (len(code), code), 10) for code in LIBRARIES)),
    "pattern": _of(b"#", b"t*", b"t1", b"h1->*"),
    "payload": lambda writer: numbered(writer.random.randint(0, 4)),
}


# --- lines that their syntax does not tell enough of -----------------------------------------------------------------


def _fields(writer: AnyCommand) -> Line:
    names = [b"f", b"g"] if writer.chance(0.7) else [writer.random.choice(MEMBERS) for _ in range(3)]
    return [word for name in names for word in (name, writer.text())]


def _trimming(writer: AnyCommand) -> Line:
    mark = [writer.pick(b"=", b"~")] if writer.chance(0.7) else []
    limit = [b"LIMIT", writer.pick(b"0", b"1", b"5", b"100")] if mark == [b"~"] and writer.chance(0.4) else []
    if writer.chance(0.6):
        return [b"MAXLEN", *mark, writer.pick(b"0", b"1", b"3", b"5", b"10"), *limit]
    return [b"MINID", *mark, writer.id(), *limit]


def _policy(writer: AnyCommand) -> Line:
    return [writer.pick(b"KEEPREF", b"DELREF", b"ACKED", b"ACKED")] if writer.chance(0.5) else []


def _xadd(writer: AnyCommand) -> Line:
    options = [b"NOMKSTREAM"] if writer.chance(0.05) else []
    if writer.chance(0.3):
        options += _policy(writer) + _trimming(writer)
    if writer.chance(0.35):
        producer = writer.pick(b"p", b"p", b"q")
        if writer.chance(0.3):
            return [writer.key(), *options, b"IDMPAUTO", producer, b"*", b"f", writer.pick(b"1", b"2")]
        return [writer.key(), *options, b"IDMP", producer, writer.pick(b"1", b"2", b"3", b"4"), b"*", *_fields(writer)]
    return [writer.key(), *options, writer.new_id(), *_fields(writer)]


def _xtrim(writer: AnyCommand) -> Line:
    return [writer.key(), *_trimming(writer), *_policy(writer)]


def _ids(writer: AnyCommand) -> Line:
    ids = [writer.id() for _ in range(writer.random.choice((1, 2, 5)))]
    return [b"IDS", b"%d" % len(ids), *ids]


def _xnack(writer: AnyCommand) -> Line:
    mode = writer.pick(b"SILENT", b"FAIL", b"FATAL")
    options = [b"RETRYCOUNT", b"3"] if writer.chance(0.2) else []
    return [
        writer.key(),
        writer.random.choice(GROUPS),
        mode,
        *_ids(writer),
        *options,
        *([b"FORCE"] * writer.chance(0.3)),
    ]


def _xreadgroup(writer: AnyCommand) -> Line:
    words = [b"GROUP", writer.random.choice(GROUPS), writer.random.choice(CONSUMERS)]
    if writer.chance(0.7):
        words += [b"COUNT", writer.pick(b"1", b"2", b"5")]
    if writer.chance(0.15):
        words += [b"BLOCK", writer.pick(b"50", b"2000")]
    if writer.chance(0.2):
        words += [b"CLAIM", writer.pick(b"0", b"500", b"90000")]
    if writer.chance(0.1):
        words.append(b"NOACK")
    keys = [writer.key() for _ in range(writer.random.choice((1, 1, 1, 2)))]
    return [*words, b"STREAMS", *keys, *(writer.pick(b">", b">", b">", b"0", writer.id()) for _ in keys)]


def _xclaim(writer: AnyCommand) -> Line:
    words = [
        writer.key(),
        writer.random.choice(GROUPS),
        writer.random.choice(CONSUMERS),
        writer.pick(b"0", b"0", b"500"),
    ]
    words += [writer.id() for _ in range(writer.random.choice((1, 2, 5)))]
    if writer.chance(0.2):
        words += [b"IDLE", writer.pick(b"0", b"1000", b"9999999")]
    elif writer.chance(0.2):
        words += [b"TIME", b"%d" % (writer.now_ms() - writer.random.choice((0, 5_000, -5_000)))]
    if writer.chance(0.2):
        words += [b"RETRYCOUNT", writer.pick(b"0", b"7", b"9223372036854775807")]
    words += [b"FORCE"] * writer.chance(0.3) + [b"JUSTID"] * writer.chance(0.3)
    return words + ([b"LASTID", writer.id()] if writer.chance(0.15) else [])


def _xgroup_create(writer: AnyCommand) -> Line:
    start = writer.pick(b"0", b"$", writer.id())
    options = [b"MKSTREAM"] * writer.chance(0.7)
    options += [b"ENTRIESREAD", writer.pick(b"-1", b"0", b"3", b"1000")] if writer.chance(0.3) else []
    return [writer.key(), writer.random.choice(GROUPS), start, *options]


def _xcfgset(writer: AnyCommand) -> Line:
    options = [b"IDMP-DURATION", writer.pick(b"1", b"3", b"900")] if writer.chance(0.6) else []
    return [writer.key(), *options, *([b"IDMP-MAXSIZE", writer.pick(b"1", b"2", b"50")] if writer.chance(0.6) else [])]


def _xsetid(writer: AnyCommand) -> Line:
    words = [writer.key(), writer.id()]
    words += [b"ENTRIESADDED", writer.pick(b"5", b"100", b"1000")] if writer.chance(0.4) else []
    return words + ([b"MAXDELETEDID", writer.pick(b"0-1", writer.id())] if writer.chance(0.6) else [])


def _link(writer: AnyCommand) -> Line:
    count = writer.random.randint(1, 4)
    if writer.chance(0.3):
        ms = int(writer.ids[-1].split(b"-")[0]) + 1
        own = packed([[(b"f", b"%d" % i)] for i in range(count)], [b"%d-%d" % (ms, i) for i in range(count)])
        return [writer.key(), b"*", own]
    return [writer.key(), writer.new_id().replace(b"-*", b"-9"), numbered(count)]


def _restore(writer: AnyCommand) -> Line:
    payload = writer.random.choice(writer.payloads) if writer.payloads else b"none"
    ttl = writer.pick(b"0", b"0", b"%d" % writer.soon_ms())
    if writer.chance(0.3):
        return [writer.key(), b"%d" % (writer.now_ms() + writer.soon_ms()), payload, b"REPLACE", b"ABSTTL"]
    return [writer.key(), ttl, payload, *([b"REPLACE"] * writer.chance(0.8))]


def _set(writer: AnyCommand) -> Line:
    options = writer.random.choice(
        ([], [], [b"KEEPTTL"], [b"PX", b"%d" % writer.soon_ms()], [b"PXAT", b"%d" % (writer.now_ms() + 2000)])
    )
    return [writer.key(), writer.text(), *options, *([writer.pick(b"NX", b"XX", b"GET")] if writer.chance(0.3) else [])]


def _bit_operations(writer: AnyCommand) -> Line:
    field = [writer.pick(b"u8", b"i5", b"u63", b"i64"), writer.pick(b"0", b"7", b"#3", b"77")]
    overflow = [b"OVERFLOW", writer.pick(b"WRAP", b"SAT", b"FAIL")] if writer.chance(0.5) else []
    return [*overflow, writer.pick(b"SET", b"INCRBY"), *field, writer.random.choice(NUMBERS), b"GET", *field]


def _zrangestore(writer: AnyCommand) -> Line:
    by = writer.random.choice(([], [b"BYSCORE"]))
    return [writer.key(), writer.key(), b"0", b"5", *by, *([b"LIMIT", b"0", b"2"] if by else [])]


def _ended(writer: AnyCommand) -> Line:
    return [writer.key("list"), writer.key("list"), writer.pick(b"LEFT", b"RIGHT"), writer.pick(b"LEFT", b"RIGHT")]


def _aggregated(writer: AnyCommand) -> Line:
    keys = [writer.key("sorted-set") for _ in range(writer.random.choice((1, 2)))]
    return [writer.key("sorted-set"), b"%d" % len(keys), *keys]


_STREAM_RULES: Final = (
    [b"MAXLEN", b"3"],
    [b"MAXLEN", b"2", b"ACKED"],
    [b"MAXLEN", b"2", b"DELREF"],
    [b"MAXAGE", b"90s"],
    [b"MAXAGE", b"700", b"ACKED", b"DROP", b"ACKED"],
    [b"MAXBYTES", b"1kb"],
    [b"DROP", b"ACKED"],
)
_GROUP_RULES: Final = (
    [b"VISIBILITY", b"1s"],
    [b"VISIBILITY", b"1s", b"MAXDELIVERIES", b"2"],
    [b"VISIBILITY", b"20", b"MAXDELIVERIES", b"1", b"DEADLETTER", b"s3"],
    [b"VISIBILITY", b"1s", b"RETRY", b"700", b"90s", b"MAXDELIVERIES", b"3"],
    [b"RETRY", b"1s", b"2m"],
    [b"MAXDELIVERIES", b"1"],
    [b"CONSUMERTTL", b"1m", b"RETRY", b"1s", b"1s"],
    [b"CREATE", b"FROM", b"0", b"VISIBILITY", b"2s", b"CONSUMERTTL", b"5m"],
)


def _rule(writer: AnyCommand) -> Line:
    target = [b"MATCH", b"s[12]"] if writer.chance(0.3) else [writer.pick(b"s1", b"s1", b"s2")]
    group = [b"GROUP", writer.random.choice(GROUPS)] if writer.chance(0.7) else []
    if writer.chance(0.1):
        return [b"DEL", *target, *group]
    return [b"SET", *target, *group, *writer.random.choice(_GROUP_RULES if group else _STREAM_RULES)]


_SPECIAL: Final[dict[bytes, Callable[[AnyCommand], Line]]] = {
    b"xadd": _xadd,
    b"xtrim": _xtrim,
    b"xdelex": lambda writer: [writer.key(), *_policy(writer), *_ids(writer)],
    b"xackdel": lambda writer: [writer.key(), writer.random.choice(GROUPS), *_policy(writer), *_ids(writer)],
    b"xnack": _xnack,
    b"xreadgroup": _xreadgroup,
    b"xclaim": _xclaim,
    b"xgroup|create": _xgroup_create,
    b"xcfgset": _xcfgset,
    b"xsetid": _xsetid,
    b"headrace|link": _link,
    b"headrace|policy": _rule,
    b"restore": _restore,
    b"set": _set,
    b"bitfield": lambda writer: [writer.key(), *_bit_operations(writer)],
    b"setbit": lambda writer: [writer.key(), writer.pick(b"0", b"7", b"8", b"77", b"999"), writer.pick(b"0", b"1")],
    b"zrangestore": _zrangestore,
    b"lmove": _ended,
    b"blmove": lambda writer: [*_ended(writer), b"0.1"],
    b"zdiffstore": _aggregated,
    b"zremrangebylex": lambda writer: [writer.key(), b"-", writer.pick(b"+", b"[b")],
    b"zmpop": lambda writer: [b"1", writer.key(), writer.pick(b"MIN", b"MAX")],
    b"bzmpop": lambda writer: [b"0.1", b"1", writer.key(), writer.pick(b"MIN", b"MAX")],
    b"lmpop": lambda writer: [b"1", writer.key(), writer.pick(b"LEFT", b"RIGHT")],
    b"blmpop": lambda writer: [b"0.1", b"1", writer.key(), writer.pick(b"LEFT", b"RIGHT")],
}
