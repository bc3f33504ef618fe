"""Random commands on keys of every type: most valid, some nearly, some nonsense; no reply depends on the clock."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Command = tuple[bytes, ...]

T = TypeVar("T")

KEYS = (b"k0", b"k1", b"k2", b"k3", b"list", b"stream", b"set", b"text", b"", b"a\r\nb", b"a[b]*\\")
WORDS = (b"", b"a", b"b", b"-1", b"0", b"12", b"99999", b"3.5", b"x" * 50, b"\x00\xff\r\n")
NONSENSE = (
    *(
        b"",
        b"foo",
        b"-1",
        b"0",
        b"7000000000000",
        b"99999999999999999999",
        b"1.5",
        b" 1",
        b"NX",
        b"GET",
        b"DB",
        b"\xff",
    ),
)
PATTERNS = (
    *(b"*", b"k*", b"k?", b"k[0-2]", b"k[^0]", b"[kl]*", b"*t", b"*e*", b"a\\[b\\]\\**", b"", b"[", b"k[2-0]", b"**"),
    *(b"?", b"*[^a-z]", b"k0", b"\\", b"[^", b"*\r\n*"),
)
TIMEOUTS = (b"0", b"-1", b"-inf", b"nan", b"x", b"0x1p1", b".5", b"1e-400", b"-1e-9", b" 1")
NUMBERS = (b"0", b"-1", b"1", b"2", b"5", b"100", b"-100")

# Times that no run reaches, and times that have passed: relative (those to come are drawn) and absolute.
SECONDS = (b"-1", b"0", b"-100000", b"9223372036854775807", b"9223372036854775")
MILLISECONDS = (b"-1", b"0", b"9223372036854775807", b"-9223372036854775808")
UNIX_SECONDS = (b"4000000000", b"5000000000", b"1", b"0", b"-5", b"9223372036854775", b"9223372036854776")
UNIX_MILLISECONDS = (b"4000000000000", b"5000000000499", b"5000000000500", b"1", b"-5", b"9223372036854775807")


class KeyCommands:
    """Draws commands from a seed; `payloads` are what RESTORE is given."""

    def __init__(self, seed: int, payloads: list[bytes]) -> None:
        self._random = random.Random(seed)
        self._payloads = payloads
        self._makers: list[Callable[[], Command]] = [
            *([self._write] * 4),
            *([self._read] * 3),
            self._expire,
            self._expire,
            self._expiry_read,
            self._remove,
            self._relocate,
            self._relocate,
            self._search,
            self._object,
            self._restore,
        ]

    def draw(self) -> Command:
        command = self._pick(self._makers)()
        chance = self._random.random()
        if chance < 0.05:
            return (*command, self._pick(NONSENSE))
        if chance < 0.1 and len(command) > 1:
            return command[:-1]
        if chance < 0.13 and len(command) > 2:
            at = self._random.randrange(2, len(command))
            return (*command[:at], self._pick(NONSENSE), *command[at + 1 :])
        return command

    def _pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def _made_by(self, makers: Sequence[Callable[[], Command]]) -> Command:
        return self._pick(makers)()

    def _some(self, choices: tuple[bytes, ...], most: int = 3) -> tuple[bytes, ...]:
        return tuple(self._pick(choices) for _ in range(self._random.randint(1, most)))

    def _options(self, *options: Command) -> Command:
        """None of the options, or one or two, in either case."""
        chosen = self._random.sample(options, min(self._pick((0, 0, 0, 1, 1, 2)), len(options)))
        return tuple(word.lower() if self._random.random() < 0.3 else word for option in chosen for word in option)

    def _write(self) -> Command:
        key = self._pick(KEYS)
        return self._made_by(
            [
                lambda: (b"SET", key, self._pick(WORDS), *self._set_options()),
                lambda: (self._pick((b"LPUSH", b"RPUSH")), key, *self._some(WORDS)),
                lambda: (b"SADD", key, *self._some(WORDS)),
                lambda: (b"XADD", key, b"NOMKSTREAM", b"5-*", b"f", b"v"),
                lambda: (b"XGROUP", b"CREATE", key, self._pick((b"g", b"h")), b"0", b"MKSTREAM"),
                lambda: (b"SREM", key, *self._some(WORDS)),
                lambda: (self._pick((b"LPOP", b"RPOP")), key, *self._options((self._pick(NUMBERS),))),
                lambda: (
                    self._pick((b"BLPOP", b"BRPOP")),
                    key,
                    self._pick((b"0", b"-1", b"inf", b"x", b"0x1p1", b"1e400")),
                ),
            ]
        )

    def _set_options(self) -> Command:
        return self._options(
            (b"NX",),
            (b"XX",),
            (b"GET",),
            (b"KEEPTTL",),
            (b"EX", self._seconds()),
            (b"PX", self._milliseconds()),
            (b"EXAT", b"4000000000"),
            (b"PXAT", b"4000000000000"),
        )

    def _read(self) -> Command:
        key = self._pick(KEYS)
        return self._made_by(
            [
                lambda: (self._pick((b"GET", b"LLEN", b"SCARD", b"SMEMBERS", b"TYPE", b"XLEN")), key),
                lambda: (b"LRANGE", key, self._pick(NUMBERS), self._pick(NUMBERS)),
                lambda: (b"SISMEMBER", key, self._pick(WORDS)),
                lambda: (self._pick((b"EXISTS", b"TOUCH")), *self._some(KEYS)),
            ]
        )

    def _seconds(self) -> bytes:
        """A time to live. Two are hardly ever equal: which is greater would depend on when each server was asked."""
        return (
            b"%d" % self._random.randrange(1_000, 100_000_000) if self._random.random() < 0.6 else self._pick(SECONDS)
        )

    def _milliseconds(self) -> bytes:
        if self._random.random() < 0.6:
            return b"%d" % self._random.randrange(1_000_000, 10_000_000_000)
        return self._pick(MILLISECONDS)

    def _expire(self) -> Command:
        name, when = self._pick(
            (
                (b"EXPIRE", self._seconds()),
                (b"PEXPIRE", self._milliseconds()),
                (b"EXPIREAT", self._pick(UNIX_SECONDS)),
                (b"PEXPIREAT", self._pick(UNIX_MILLISECONDS)),
            )
        )
        options = self._options((b"NX",), (b"XX",), (b"GT",), (b"LT",))
        return name, self._pick(KEYS), when, *options

    def _expiry_read(self) -> Command:
        return self._pick((b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST")), self._pick(KEYS)

    def _remove(self) -> Command:
        if self._random.random() < 0.05:
            return self._pick((b"FLUSHDB", b"FLUSHALL")), *self._options((b"ASYNC",), (b"SYNC",))
        return self._pick((b"DEL", b"UNLINK")), *self._some(KEYS, 2)

    def _relocate(self) -> Command:
        source, target = self._pick(KEYS), self._pick(KEYS)
        database = self._pick((b"0", b"1", b"2", b"15", b"16", b"-1", b"9999999999"))
        return self._made_by(
            [
                lambda: (self._pick((b"RENAME", b"RENAMENX")), source, target),
                lambda: (b"COPY", source, target, *self._options((b"REPLACE",), (b"DB", database))),
                lambda: (b"MOVE", source, database),
                lambda: (b"SELECT", self._pick((b"0", b"0", b"1", b"2"))),
                lambda: (b"SWAPDB", self._pick((b"0", b"1", b"99999999999")), database),
            ]
        )

    def _search(self) -> Command:
        kind = self._pick((b"string", b"list", b"SET", b"stream", b"foo"))
        options = self._options((b"MATCH", self._pick(PATTERNS)), (b"TYPE", kind))
        return self._made_by(
            [
                lambda: (b"KEYS", self._pick(PATTERNS)),
                lambda: (b"SCAN", self._pick((b"0", b"0", b"", b"+0", b"x", b"1e1")), b"COUNT", b"1000", *options),
                lambda: (b"DBSIZE",),
                lambda: (b"RANDOMKEY",),
            ]
        )

    def _object(self) -> Command:
        key = self._pick(KEYS)
        name = self._pick((b"ENCODING", b"FREQ", b"IDLETIME", b"REFCOUNT", b"FOO"))
        samples = self._options((b"SAMPLES", self._pick(NUMBERS)))
        return self._made_by([lambda: (b"OBJECT", name, key), lambda: (b"MEMORY", b"USAGE", key, *samples)])

    def _restore(self) -> Command:
        if self._random.random() < 0.3:
            return b"DUMP", self._pick(KEYS)
        options = self._options(
            (b"REPLACE",),
            (b"REPLACE",),
            (b"ABSTTL",),
            (b"IDLETIME", self._pick((b"0", b"100", b"-1"))),
            (b"FREQ", self._pick((b"0", b"255", b"256"))),
        )
        ttl = self._pick((b"0", b"0", b"%d" % self._random.randrange(1_000_000, 10_000_000_000), b"-1"))
        return b"RESTORE", self._pick(KEYS), ttl, self._pick(self._payloads), *options
