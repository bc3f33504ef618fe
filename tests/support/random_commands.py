"""Random command lines over every stream command and option of Redis 7.0, and over keys and transactions.

Most are valid and find something: IDs grow by one counter for all keys, so that an entry can usually be added
anywhere, and IDs are picked from those that were given out. `spoil` then makes nearly valid ones of valid ones, and
`nonsense` makes some up.

Nothing here depends on the clock of a server: IDs are explicit, times are whole hours off, and what would wait at
all waits for milliseconds.
"""

import random
from collections import deque
from collections.abc import Callable

Command = list[bytes]

HOUR_MS = 3_600_000
FAR_FUTURE_MS = 2**43  # the year 2248: beyond any clock, so that `*` means the successor

KEYS = (b"s1", b"s2", b"s3", b"k\x00\r\n\xff", b"other")
GROUPS = (b"g1", b"g2", b"", b"g\x00\r\n")
CONSUMERS = (b"alice", b"bob", b"", b"\xff\n")
NAMES = (b"f", b"field", b"1", b"", b"\x00\xff")
JUNK = (
    *(b"", b"0", b"-1", b"1", b"abc", b"-", b"(", b"*", b"~", b"=", b"$", b">", b"0-0", b"0-*", b"5-", b"-5", b"1-1-1"),
    *(b"007-1", b"+5", b" 5", b"1.5", b"\x00", b"1-1\x00x", b"(1-1", b"(0-0", b"(-", b"(", b"nan", b"\xff" * 130),
    *(b"18446744073709551615-18446744073709551615", b"(18446744073709551615-18446744073709551615"),
    *(b"18446744073709551616", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808"),
    *(b"COUNT", b"MAXLEN", b"MINID", b"LIMIT", b"STREAMS", b"GROUP", b"NOACK", b"JUSTID", b"IDLE", b"MKSTREAM"),
    *(b"ENTRIESREAD", b"ENTRIESADDED", b"MAXDELETEDID", b"NOMKSTREAM", b"FULL", b"FORCE", b"LASTID", b"REPLACE"),
    *(b"s1", b"g1", b"alice", b"other", b"missing"),
)


class CommandWriter:
    """Writes one command after the other; the same seed writes the same ones to servers that answer the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.known: deque[bytes] = deque([b"1-1"], maxlen=40)
        self.payloads: deque[bytes] = deque(maxlen=6)
        self._ms = self.random.choice((0, 0, 1_600_000_000_000, FAR_FUTURE_MS, 2**63, 2**64 - 2**33))
        self._seq = 0
        self._makers: tuple[tuple[Callable[[], Command], float], ...] = (
            *(
                (self._xadd, 30),
                (self._xlen, 2),
                (self._xrange, 8),
                (self._xread, 8),
                (self._xdel, 6),
                (self._xtrim, 4),
            ),
            *((self._xsetid, 2), (self._xgroup_create, 5), (self._xgroup_setid, 2), (self._xgroup_destroy, 1)),
            *((self._xgroup_consumer, 3), (self._xreadgroup, 16), (self._xack, 6), (self._xclaim, 7)),
            *((self._xautoclaim, 4), (self._xpending, 6), (self._xinfo, 8)),
            *((self._other_type, 3), (self._key_read, 6), (self._key_removal, 1), (self._key_move, 3)),
            *((self._expiry, 3), (self._dump, 2), (self._restore, 2), (self._scan, 1)),
        )
        self._weights = [weight for _, weight in self._makers]

    def valid(self) -> Command:
        """Write a command as it should be, in any mixture of cases."""
        (make, _), *_ = self.random.choices(self._makers, self._weights)
        name, *words = make()
        return [self.random.choice((name, name, name.lower(), name.title())), *words]

    def append(self) -> Command:
        """Write an XADD that trims nothing."""
        return [b"XADD", self._key(), self._new_id(), b"f", self._text()]

    def spoil(self, command: Command) -> Command:
        """Change a command in one or two places, so that it is often wrong and sometimes another valid one."""
        words = list(command)
        for _ in range(self.random.choice((1, 1, 2))):
            at = self.random.randrange(1, len(words)) if len(words) > 1 else 0
            change = self.random.randrange(6)
            if change == 0 and len(words) > 1:
                del words[at]
            elif change == 1:
                words.insert(at or 1, self.random.choice(JUNK))
            elif change == 2 and at:
                words[at] = self.random.choice(JUNK)
            elif change == 3 and at:
                other = self.random.randrange(1, len(words))
                words[at], words[other] = words[other], words[at]
            elif change == 4:
                words.append(self.random.choice((*JUNK, words[at])))
            elif at:
                words[at] = words[at].swapcase()
        return words

    def nonsense(self) -> Command:
        """Make up a command of words that mean something elsewhere, or nowhere."""
        names = (b"XADD", b"XREADGROUP", b"XGROUP", b"XINFO", b"XCLAIM", b"XNONE", b"", b"\x00", b"X\r\nY")
        return [self.random.choice(names), *(self.random.choice(JUNK) for _ in range(self.random.randrange(8)))]

    def last_id(self) -> bytes:
        return b"%d-%d" % (self._ms, self._seq)

    # --- parts -------------------------------------------------------------------------------------------------

    def _one_of(self, *choices: bytes) -> bytes:
        return self.random.choice(choices)

    def _maybe(self, chance: float, *words: bytes) -> list[bytes]:
        return list(words) if self.random.random() < chance else []

    def _word(self, word: bytes) -> bytes:
        return self.random.choice((word, word, word.lower()))

    def _key(self) -> bytes:
        return self.random.choices(KEYS, (8, 6, 3, 1, 1))[0]

    def _group(self) -> bytes:
        return self.random.choices(GROUPS, (10, 5, 1, 1))[0]

    def _consumer(self) -> bytes:
        return self.random.choices(CONSUMERS, (6, 5, 1, 1))[0]

    def _number(self) -> bytes:
        return b"%d" % self.random.choice((0, 1, 1, 2, 3, 5, 10, 1000, -1))

    def _new_id(self) -> bytes:
        roll = self.random.random()
        if roll < 0.5:
            self._seq += self.random.choice((1, 1, 2, 300))
        else:
            self._ms += self.random.choice((1, 1, 5, 70000))
            self._seq = self.random.choice((0, 0, 1, 2**32))
        if roll < 0.03:
            return self._id()
        if roll < 0.1:
            self._seq = 0
            self._ms += 1
            return self._remember(b"%d-*" % self._ms, b"%d-0" % self._ms)
        if roll < 0.12:
            return b"%d-*" % max(self._ms - 1, 0)
        if roll < 0.14 and self._ms >= FAR_FUTURE_MS:
            return b"*"
        return self._remember(self.last_id(), self.last_id())

    def _remember(self, text: bytes, entry_id: bytes) -> bytes:
        self.known.append(entry_id)
        return text

    def _id(self) -> bytes:
        roll = self.random.random()
        if roll < 0.85:
            return self.random.choice(self.known)
        if roll < 0.9:
            return self.random.choice(self.known).split(b"-")[0]
        return self._one_of(b"0", b"0-0", b"1-1", self.last_id(), b"18446744073709551615-18446744073709551615")

    def _ids(self) -> list[bytes]:
        return [self._id() for _ in range(self.random.choice((1, 1, 1, 2, 3, 9)))]

    def _start(self) -> bytes:
        return self._one_of(b"-", b"-", b"0", self._id(), b"(" + self._id())

    def _end(self) -> bytes:
        return self._one_of(b"+", b"+", self._id(), b"(" + self._id())

    def _text(self) -> bytes:
        roll = self.random.random()
        if roll < 0.5:
            return b"%d" % self.random.choice((0, 1, -1, 127, 128, 4096, -4097, 2**31, 2**63 - 1, 2**63, 10**12))
        if roll < 0.6:
            return self._one_of(b"", b"-0", b"00", b"+1", b"1 ", b"\r\n$3\r\n", b"x" * 64, b"y" * 300)
        return self.random.randbytes(self.random.randint(1, 12))

    def _min_idle(self) -> bytes:
        """Half an hour off any idle time that records have, so that no clock decides."""
        return b"%d" % self.random.choice((0, 0, 0, HOUR_MS // 2, HOUR_MS * 3 // 2, -1))

    # --- entries -----------------------------------------------------------------------------------------------

    def _trimming(self) -> list[bytes]:
        approximate = self.random.random() < 0.5
        mark = [b"~"] if approximate else self._maybe(0.5, b"=")
        if self.random.random() < 0.6:
            words = [self._word(b"MAXLEN"), *mark, self._one_of(b"0", b"1", b"3", b"10", b"20", b"-1")]
        else:
            words = [self._word(b"MINID"), *mark, self._id()]
        return words + self._maybe(0.4 if approximate else 0.03, self._word(b"LIMIT"), self._number())

    def _xadd(self) -> Command:
        options = self._maybe(0.05, self._word(b"NOMKSTREAM")) + self._maybe(0.15, *self._trimming())
        names = [b"f", b"g"] if self.random.random() < 0.7 else self.random.choices(NAMES, k=self.random.randint(1, 4))
        pairs = [text for name in names for text in (name, self._text())]
        return [b"XADD", self._key(), *options, self._new_id(), *pairs]

    def _xlen(self) -> Command:
        return [b"XLEN", self._key()]

    def _xrange(self) -> Command:
        count = self._maybe(0.5, self._word(b"COUNT"), self._number())
        if self.random.random() < 0.5:
            return [b"XRANGE", self._key(), self._start(), self._end(), *count]
        return [b"XREVRANGE", self._key(), self._end(), self._start(), *count]

    def _xdel(self) -> Command:
        return [b"XDEL", self._key(), *self._ids()]

    def _xtrim(self) -> Command:
        return [b"XTRIM", self._key(), *self._trimming()]

    def _xsetid(self) -> Command:
        options = self._maybe(0.5, b"ENTRIESADDED", self._one_of(b"0", b"5", b"100", b"100000", b"-1"))
        options += self._maybe(0.3, b"MAXDELETEDID", self._id())
        return [b"XSETID", self._key(), self._one_of(self.last_id(), self._id()), *options]

    def _streams(self, *ids: Callable[[], bytes]) -> list[bytes]:
        keys = [self._key() for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        return [self._word(b"STREAMS"), *keys, *(self.random.choice(ids)() for _ in keys)]

    def _reading_options(self) -> list[bytes]:
        options = [self._maybe(0.6, self._word(b"COUNT"), self._number())]
        options.append(self._maybe(0.06, self._word(b"BLOCK"), self._one_of(b"1", b"2", b"5")))
        self.random.shuffle(options)
        return [word for option in options for word in option]

    def _xread(self) -> Command:
        return [b"XREAD", *self._reading_options(), *self._streams(self._id, lambda: b"0", lambda: b"$")]

    # --- groups ------------------------------------------------------------------------------------------------

    def _entries_read(self) -> list[bytes]:
        return self._maybe(0.3, self._word(b"ENTRIESREAD"), self._one_of(b"-1", b"0", b"1", b"3", b"10", b"1000"))

    def _xgroup_create(self) -> Command:
        options = [*self._maybe(0.4, self._word(b"MKSTREAM")), *self._entries_read()]
        start = self._one_of(b"0", b"0", b"$", self._id())
        return [b"XGROUP", self._word(b"CREATE"), self._key(), self._group(), start, *options]

    def _xgroup_setid(self) -> Command:
        start = self._one_of(b"0", b"$", b"-", b"+", self._id(), self._id())
        return [b"XGROUP", self._word(b"SETID"), self._key(), self._group(), start, *self._entries_read()]

    def _xgroup_destroy(self) -> Command:
        return [b"XGROUP", b"DESTROY", self._key(), self._group()]

    def _xgroup_consumer(self) -> Command:
        verb = self._one_of(b"CREATECONSUMER", b"DELCONSUMER", b"createconsumer")
        return [b"XGROUP", verb, self._key(), self._group(), self._consumer()]

    def _xreadgroup(self) -> Command:
        reader = [self._word(b"GROUP"), self._group(), self._consumer()]
        noack = self._maybe(0.1, self._word(b"NOACK"))
        new = (lambda: b">",) * 3
        return [b"XREADGROUP", *reader, *self._reading_options(), *noack, *self._streams(*new, self._id, lambda: b"0")]

    def _xack(self) -> Command:
        return [b"XACK", self._key(), self._group(), *self._ids()]

    def _xclaim(self) -> Command:
        options = [
            self._maybe(0.3, b"IDLE", b"%d" % (self.random.choice((0, 1, 2, 3)) * HOUR_MS)),
            self._maybe(0.1, b"TIME", self._one_of(b"-1", b"99999999999999", b"1")),
            self._maybe(0.3, b"RETRYCOUNT", self._one_of(b"0", b"1", b"5", b"100000", b"-1")),
            self._maybe(0.3, self._word(b"FORCE")),
            self._maybe(0.3, self._word(b"JUSTID")),
            self._maybe(0.1, b"LASTID", self._id()),
        ]
        self.random.shuffle(options)
        words = [word for option in options for word in option]
        return [b"XCLAIM", self._key(), self._group(), self._consumer(), self._min_idle(), *self._ids(), *words]

    def _xautoclaim(self) -> Command:
        options = self._maybe(0.6, b"COUNT", self._number()) + self._maybe(0.3, b"JUSTID")
        return [b"XAUTOCLAIM", self._key(), self._group(), self._consumer(), self._min_idle(), self._start(), *options]

    def _xpending(self) -> Command:
        words = [b"XPENDING", self._key(), self._group()]
        if self.random.random() < 0.6:
            words += self._maybe(0.3, self._word(b"IDLE"), self._min_idle())
            words += [self._start(), self._end(), self._number(), *self._maybe(0.4, self._consumer())]
        return words

    def _xinfo(self) -> Command:
        roll = self.random.random()
        if roll < 0.25:
            return [b"XINFO", self._word(b"GROUPS"), self._key()]
        if roll < 0.5:
            return [b"XINFO", self._word(b"CONSUMERS"), self._key(), self._group()]
        if roll < 0.55:
            return [self._one_of(b"XINFO", b"XGROUP"), b"HELP"]
        full = self._maybe(0.6, self._word(b"FULL"), *self._maybe(0.6, b"COUNT", self._number()))
        return [b"XINFO", self._word(b"STREAM"), self._key(), *full]

    # --- keys --------------------------------------------------------------------------------------------------

    def _other_type(self) -> Command:
        return self.random.choice(
            (
                [b"SET", b"other", b"v"],
                [b"LPUSH", b"other", b"v"],
                [b"SADD", b"other", b"v"],
                [b"GET", self._key()],
                [b"SET", self._key(), b"v", b"NX"],
            )
        )

    def _key_read(self) -> Command:
        return self.random.choice(
            (
                [b"TYPE", self._key()],
                [b"EXISTS", self._key(), self._key()],
                [b"OBJECT", b"ENCODING", b"s1"],
                [b"TOUCH", self._key(), self._key()],
                [b"DBSIZE"],
                [b"ECHO", self._text()],
                [b"PING"],
            )
        )

    def _key_removal(self) -> Command:
        return self.random.choice(
            (
                [self._one_of(b"DEL", b"UNLINK"), self._key(), *self._maybe(0.3, self._key())],
                [b"DEL", b"other"],
                [self._one_of(b"FLUSHDB", b"FLUSHALL"), *self._maybe(0.4, self._one_of(b"ASYNC", b"SYNC"))],
            )
        )

    def _key_move(self) -> Command:
        database = self._maybe(0.2, b"DB", self._one_of(b"0", b"1"))
        return self.random.choice(
            (
                [b"RENAME", self._key(), self._key()],
                [b"RENAMENX", self._key(), self._key()],
                [b"COPY", self._key(), self._key(), *database, *self._maybe(0.6, b"REPLACE")],
                [b"MOVE", self._key(), self._one_of(b"0", b"1", b"16")],
                [b"SWAPDB", b"0", b"1"],
                [b"SELECT", self._one_of(b"0", b"0", b"0", b"0", b"1", b"16")],
            )
        )

    def _expiry(self) -> Command:
        hours = self.random.choice((1, 2, 3))
        flag = self._maybe(0.3, self._one_of(b"NX", b"XX", b"GT", b"LT"))
        return self.random.choice(
            (
                [b"EXPIRE", self._key(), b"%d" % (hours * 3600), *flag],
                [b"PEXPIRE", self._key(), b"%d" % (hours * HOUR_MS), *flag],
                [b"PEXPIREAT", self._key(), b"%d" % (FAR_FUTURE_MS + hours * HOUR_MS), *flag],
                [b"EXPIREAT", self._key(), self._one_of(b"0", b"-5", b"9999999999"), *flag],
                [self._one_of(b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"), self._key()],
                [b"PERSIST", self._key()],
            )
        )

    def _dump(self) -> Command:
        return [b"DUMP", self._key()]

    def _restore(self) -> Command:
        payload = self.random.choice(self.payloads) if self.payloads else b"no payload"
        return [b"RESTORE", self._key(), b"0", payload, *self._maybe(0.7, b"REPLACE")]

    def _scan(self) -> Command:
        pattern = self._one_of(b"*", b"s*", b"s[12]", b"?1", b"k*", b"[^s]*")
        if self.random.random() < 0.5:
            return [b"KEYS", pattern]
        kind = self._maybe(0.5, b"TYPE", self._one_of(b"stream", b"list"))
        return [b"SCAN", b"0", b"COUNT", b"1000", b"MATCH", pattern, *kind]
