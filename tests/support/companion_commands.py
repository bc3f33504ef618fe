"""Random command lines over every command on strings, lists, sets, sorted sets and hashes that Redis 7.0 knows.

Each family has keys of its own, so that most commands find something, and now and then takes another's. Sorted sets
have two: `z`, and `x` whose scores are all 0, because ranges by member of any other have no meaning. `spoil` makes
nearly valid ones of valid ones, and `nonsense` makes some up.

Nothing here depends on a clock: times are hours away or have passed, and what would wait at all waits for milliseconds.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Command = list[bytes]
T = TypeVar("T")

HOUR_MS = 3_600_000
FAR_FUTURE_MS = 2**43

TYPES = (b"t", b"l", b"s", b"z", b"h")
MEMBERS = (b"a", b"b", b"c", b"d", b"e", b"1", b"2", b"-7", b"", b"\x00\xff\r\n", b"1.5", b"x" * 70)
NUMBERS = (b"0", b"1", b"-1", b"2", b"3", b"5", b"-2", b"-100", b"100")
INTEGERS = (*NUMBERS, b"9223372036854775807", b"-9223372036854775808", b"4294967296", b"-9223372036854775807")
SCORES = (
    *(b"0", b"1", b"2", b"3", b"-1", b"1.5", b"0.1", b"0.2", b"0.3", b"-0.7", b"1e3", b"inf", b"-inf", b"+5", b"3.0"),
    *(b"1e-7", b"1e17", b"0x10", b"123456789012345678", b"-0", b"1e300", b"5e-324"),
)
NEARLY_SCORES = (
    b"nan",
    b"1e400",
    b"1e-400",
    b"0x",
    b" 1",
    b"1 ",
    b"",
    b"abc",
    b"infinity",
    b"-Inf",
    b"1e",
    b".",
    b".5",
)
FLOATS = (
    *(b"0.1", b"0.2", b"-0.3", b"1", b"10.5", b"5.0e3", b"3", b"-3", b"1e17", b"1e-17", b"0x1p-3", b"200", b"1e4000"),
    *(b"3.14159265358979323846", b"-5e-18", b"1e20", b".5", b"5.", b"0.00000000000000001", b"123456789.987654321"),
    *(
        b"1e4932",
        b"inf",
        b"-inf",
        b"nan",
        b"1e5000",
        b"1e-4940",
        b"1e-5000",
        b" 1",
        b"",
        b"1e",
        b"0e99999",
        b"0x",
        b"0x.8p1",
    ),
)
LATITUDES = (b"38.115556", b"37.502669", b"-85", b"85.05112878", b"0", b"-0.001", b"86")
UNITS = (b"m", b"km", b"km", b"FT", b"mi", b"inch")
LEX = (b"-", b"+", b"[a", b"(a", b"[c", b"(c", b"[", b"(", b"[\xff", b"[-", b"-", b"+")
PATTERNS = (b"*", b"a*", b"?", b"[a-c]", b"[^a]", b"", b"\\", b"*1*")
JUNK = (
    *(
        b"",
        b"0",
        b"1",
        b"-1",
        b"abc",
        b"(",
        b"[",
        b"-",
        b"+",
        b"(1",
        b"[a",
        b"nan",
        b"inf",
        b"1.5",
        b" 5",
        b"+5",
        b"007",
    ),
    *(
        b"\x00",
        b"1\x00",
        b"9223372036854775807",
        b"9223372036854775808",
        b"-9223372036854775808",
        b"18446744073709551616",
    ),
    *(
        b"NX",
        b"XX",
        b"GT",
        b"LT",
        b"CH",
        b"INCR",
        b"EX",
        b"PX",
        b"GET",
        b"KEEPTTL",
        b"PERSIST",
        b"COUNT",
        b"MATCH",
        b"LIMIT",
    ),
    *(b"BYSCORE", b"BYLEX", b"REV", b"WITHSCORES", b"WITHVALUES", b"WEIGHTS", b"AGGREGATE", b"SUM", b"MAX", b"MIN"),
    *(b"BIT", b"BYTE", b"AND", b"NOT", b"OVERFLOW", b"FAIL", b"u8", b"#1"),
    *(b"LEFT", b"RIGHT", b"BEFORE", b"AFTER", b"RANK", b"MAXLEN", b"t1", b"l1", b"s1", b"z1", b"h1", b"missing"),
)


class CompanionCommands:
    """Writes one command after the other; the same seed writes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._families: tuple[Sequence[Callable[[], Command]], ...] = (
            (self._set, self._set, self._get, self._string_many, self._count, self._count, self._bytes, self._bytes),
            (self._bit, self._bit_range, self._bitop, self._bitfield),
            (self._pfadd, self._pfadd, self._pfcount),
            (self._geoadd, self._geoadd, self._geo_read, self._geosearch, self._geosearch, self._georadius),
            (self._push, self._push, self._push, self._pop, self._list_read, self._list_change, self._list_move),
            (
                self._sadd,
                self._sadd,
                self._srem,
                self._set_read,
                self._set_algebra,
                self._set_algebra,
                self._set_random,
            ),
            (
                *(self._zadd, self._zadd, self._zadd, self._zrem, self._zset_read, self._zrange, self._zrange),
                *(
                    self._zrange_old,
                    self._zremrange,
                    self._zpop,
                    self._zset_algebra,
                    self._zset_random,
                    self._zrangestore,
                ),
            ),
            (self._hset, self._hset, self._hash_change, self._hash_read, self._hash_read, self._hash_random),
            (self._key,),
        )

    def valid(self) -> Command:
        """Write a command as it should be, in any mixture of cases."""
        (family,) = self.random.choices(self._families, (5, 3, 2, 3, 5, 5, 9, 5, 2))
        name, *words = self._pick(family)()
        return [self._pick((name, name, name.lower(), name.title())), *words]

    def spoil(self, command: Command) -> Command:
        """Change a command in one or two places, so that it is often wrong and sometimes another valid one."""
        words = list(command)
        for _ in range(self._pick((1, 1, 2))):
            at = self.random.randrange(1, len(words)) if len(words) > 1 else 0
            change = self.random.randrange(6)
            if change == 0 and len(words) > 1:
                del words[at]
            elif change == 1:
                words.insert(at or 1, self._pick(JUNK))
            elif change == 2 and at:
                words[at] = self._pick(JUNK)
            elif change == 3 and at:
                other = self.random.randrange(1, len(words))
                words[at], words[other] = words[other], words[at]
            elif change == 4:
                words.append(self._pick((*JUNK, words[at])))
            elif at:
                words[at] = words[at].swapcase()
        return words

    def nonsense(self) -> Command:
        """Make up a command of words that mean something elsewhere, or nowhere."""
        name = self.valid()[0]
        return [name, *(self._pick(JUNK) for _ in range(self.random.randrange(7)))]

    # --- parts -------------------------------------------------------------------------------------------------

    def _pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def _some(self, choices: Sequence[bytes], most: int = 3) -> list[bytes]:
        return [self._pick(choices) for _ in range(self.random.randint(1, most))]

    def _maybe(self, chance: float, *words: bytes) -> list[bytes]:
        return list(words) if self.random.random() < chance else []

    def _key_of(self, kind: bytes) -> bytes:
        if self.random.random() < 0.06 and kind != b"x":
            kind = self._pick(TYPES)
        if self.random.random() < 0.03 and kind == b"x":
            kind = b"l"
        return kind + self._pick((b"1", b"1", b"1", b"2", b"2", b"3", b"missing"))

    def _keys_of(self, kind: bytes, most: int = 3) -> list[bytes]:
        return [self._key_of(kind) for _ in range(self.random.randint(1, most))]

    def _numbered(self, kind: bytes) -> list[bytes]:
        keys = self._keys_of(kind)
        return [b"%d" % (len(keys) + self._pick((0,) * 30 + (1, -1, -2))), *keys]

    def _element(self) -> bytes:
        return self._pick(MEMBERS)

    def _score(self) -> bytes:
        return self._pick(SCORES) if self.random.random() < 0.95 else self._pick(NEARLY_SCORES)

    def _waits(self) -> bytes:
        return self._pick((b"0.001", b"0.002", b".001", b"1e-9", b"0x0.001", b"-1", b"x", b"nan", b"inf", b"1e4000"))

    def _mixed(self, *options: list[bytes]) -> list[bytes]:
        shuffled = list(options)
        self.random.shuffle(shuffled)
        return [self._pick((word, word, word.lower())) for option in shuffled for word in option]

    # --- strings -----------------------------------------------------------------------------------------------

    def _text(self) -> bytes:
        if self.random.random() < 0.5:
            return self._pick((*INTEGERS, b"3.5", b"0.1", b" 1", b"01", b"-0", b"+1", b"1e5", b"99999999999999999999"))
        return self._element()

    def _expiry(self) -> list[bytes]:
        hours = self._pick((1, 2, 3))
        return self._pick(
            (
                [b"EX", b"%d" % (hours * 3600)],
                [b"PX", b"%d" % (hours * HOUR_MS)],
                [b"EXAT", b"%d" % (FAR_FUTURE_MS // 1000)],
                [b"PXAT", b"%d" % FAR_FUTURE_MS],
                [b"EX", self._pick((b"0", b"-1", b"9223372036854775807", b"x"))],
                [b"PX", self._pick((b"0", b"-5", b"9223372036854775807", b"1.5"))],
            )
        )

    def _set(self) -> Command:
        condition = self._maybe(0.3, self._pick((b"NX", b"XX")))
        keeping = self._pick(([], [], self._expiry(), [b"KEEPTTL"]))
        return [b"SET", self._key_of(b"t"), self._text(), *self._mixed(condition, keeping, self._maybe(0.3, b"GET"))]

    def _get(self) -> Command:
        key = self._key_of(b"t")
        past = [b"EXAT", b"1"]
        return self._pick(
            (
                [b"GET", key],
                [self._pick((b"STRLEN", b"GETDEL")), key],
                [b"GETSET", key, self._text()],
                [b"GETEX", key, *self._pick(([], self._expiry(), self._expiry(), [b"PERSIST"], past))],
                [b"SETNX", key, self._text()],
                [
                    b"SETEX",
                    key,
                    self._pick((b"3600", b"7200", b"0", b"-1", b"x", b"9223372036854775807")),
                    self._text(),
                ],
                [b"PSETEX", key, self._pick((b"3600000", b"0", b"-1", b"9223372036854775807")), self._text()],
            )
        )

    def _string_many(self) -> Command:
        pairs = [word for key in self._keys_of(b"t") for word in (key, self._text())]
        if self.random.random() < 0.4:
            return [b"MGET", *self._keys_of(b"t", 5), *self._maybe(0.3, self._key_of(b"l"))]
        return [self._pick((b"MSET", b"MSETNX")), *pairs, *self._maybe(0.05, b"odd")]

    def _count(self) -> Command:
        key = self._key_of(b"t")
        return self._pick(
            (
                [self._pick((b"INCR", b"DECR")), key],
                [self._pick((b"INCRBY", b"DECRBY")), key, self._pick(INTEGERS)],
                [b"INCRBYFLOAT", key, self._pick(FLOATS)],
                [b"INCRBYFLOAT", key, self._pick(FLOATS)],
                [b"SET", key, self._pick((*FLOATS, *INTEGERS))],
            )
        )

    def _bytes(self) -> Command:
        key = self._key_of(b"t")
        return self._pick(
            (
                [b"APPEND", key, self._text()],
                [b"SETRANGE", key, self._pick((*NUMBERS, b"536870912", b"9223372036854775807")), self._element()],
                [self._pick((b"GETRANGE", b"SUBSTR")), key, self._pick(INTEGERS), self._pick(INTEGERS)],
            )
        )

    def _bit(self) -> Command:
        key = self._key_of(b"t")
        offset = self._pick((*NUMBERS, b"7", b"8", b"63", b"570", b"4294967296", b"9223372036854775807"))
        if self.random.random() < 0.3:
            return [b"GETBIT", key, offset]
        return [b"SETBIT", key, offset, self._pick((b"0", b"1", b"1", b"0", b"1", b"2"))]

    def _bit_range(self) -> Command:
        key, ends = self._key_of(b"t"), [self._pick(INTEGERS), self._pick(INTEGERS)]
        unit = self._maybe(0.6, self._pick((b"BIT", b"BYTE", b"bit", b"byte")))
        if self.random.random() < 0.5:
            return [b"BITCOUNT", key, *self._pick(([], [*ends, *unit], [*ends, *unit]))]
        return [b"BITPOS", key, self._pick((b"0", b"1")), *self._pick(([], ends[:1], [*ends, *unit], [*ends, *unit]))]

    def _bitop(self) -> Command:
        operation = self._pick((b"AND", b"OR", b"XOR", b"NOT", b"xor"))
        return [b"BITOP", operation, self._key_of(b"t"), *self._keys_of(b"t", 1 if operation == b"NOT" else 3)]

    def _bitfield(self) -> Command:
        operations: list[bytes] = []
        for _ in range(self.random.randint(0, 4)):
            kind = self._pick((b"u8", b"i8", b"u1", b"i1", b"i64", b"u63", b"i5", b"u12", b"i33", b"u64", b"u0", b"x8"))
            offset = self._pick((b"0", b"1", b"7", b"8", b"#0", b"#1", b"#3", b"77", b"#9", b"-1", b"4294967296"))
            name = self._pick((b"GET", b"SET", b"INCRBY", b"incrby", b"get"))
            value = [self._pick(INTEGERS)] if name.upper() != b"GET" else []
            overflow = self._maybe(0.3, b"OVERFLOW", self._pick((b"WRAP", b"SAT", b"sat", b"FAIL")))
            operations += [*overflow, name, kind, offset, *value]
        return [self._pick((b"BITFIELD", b"BITFIELD", b"BITFIELD_RO")), self._key_of(b"t"), *operations]

    # --- HyperLogLogs ------------------------------------------------------------------------------------------

    def _pfadd(self) -> Command:
        if self.random.random() < 0.3:
            return [b"PFMERGE", self._key_of(b"p"), *self._keys_of(b"p")]
        return [b"PFADD", self._key_of(b"p"), *self._some(MEMBERS)]

    def _pfcount(self) -> Command:
        return [b"PFCOUNT", *self._keys_of(b"p", 2)]

    # --- lists -------------------------------------------------------------------------------------------------

    def _push(self) -> Command:
        return [
            self._pick((b"LPUSH", b"RPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX")),
            self._key_of(b"l"),
            *self._some(MEMBERS, 5),
        ]

    def _count_option(self, chance: float = 0.4) -> list[bytes]:
        return self._maybe(chance, b"COUNT", self._pick((b"1", b"2", b"3", b"100", b"0", b"-1", b"x")))

    def _pop(self) -> Command:
        end = self._pick((b"LEFT", b"RIGHT", b"left"))
        return self._pick(
            (
                [self._pick((b"LPOP", b"RPOP")), self._key_of(b"l"), *self._maybe(0.4, self._pick(NUMBERS))],
                [b"LMPOP", *self._numbered(b"l"), end, *self._count_option()],
                [b"BLMPOP", self._waits(), *self._numbered(b"l"), end, *self._count_option()],
                [self._pick((b"BLPOP", b"BRPOP")), *self._keys_of(b"l"), self._waits()],
            )
        )

    def _list_move(self) -> Command:
        keys = [self._key_of(b"l"), self._key_of(b"l")]
        ends = [self._pick((b"LEFT", b"RIGHT", b"right")), self._pick((b"LEFT", b"RIGHT"))]
        return self._pick(
            (
                [b"LMOVE", *keys, *ends],
                [b"RPOPLPUSH", *keys],
                [b"BLMOVE", *keys, *ends, self._waits()],
                [b"BRPOPLPUSH", *keys, self._waits()],
            )
        )

    def _list_read(self) -> Command:
        key = self._key_of(b"l")
        options = self._mixed(
            self._maybe(0.4, b"RANK", self._pick((b"1", b"2", b"-1", b"-2", b"0", b"-9223372036854775808", b"100"))),
            self._maybe(0.4, b"COUNT", self._pick((b"0", b"1", b"2", b"-1"))),
            self._maybe(0.3, b"MAXLEN", self._pick((b"0", b"1", b"3", b"-1"))),
        )
        return self._pick(
            (
                [b"LLEN", key],
                [b"LRANGE", key, self._pick(INTEGERS), self._pick(INTEGERS)],
                [b"LINDEX", key, self._pick(INTEGERS)],
                [b"LPOS", key, self._element(), *options],
                [b"LPOS", key, self._element(), *options],
            )
        )

    def _list_change(self) -> Command:
        key = self._key_of(b"l")
        return self._pick(
            (
                [b"LSET", key, self._pick(INTEGERS), self._element()],
                [b"LINSERT", key, self._pick((b"BEFORE", b"AFTER", b"after", b"x")), self._element(), self._element()],
                [b"LREM", key, self._pick(INTEGERS), self._element()],
                [b"LTRIM", key, self._pick(NUMBERS), self._pick((b"-1", b"5", *NUMBERS))],
            )
        )

    # --- sets --------------------------------------------------------------------------------------------------

    def _sadd(self) -> Command:
        return [b"SADD", self._key_of(b"s"), *self._some(MEMBERS, 6)]

    def _srem(self) -> Command:
        if self.random.random() < 0.5:
            return [b"SMOVE", self._key_of(b"s"), self._key_of(b"s"), self._element()]
        return [b"SREM", self._key_of(b"s"), *self._some(MEMBERS)]

    def _scan_options(self) -> list[bytes]:
        return self._mixed(
            self._maybe(0.4, b"MATCH", self._pick(PATTERNS)),
            self._maybe(0.4, b"COUNT", self._pick((b"1000", b"0", b"x"))),
        )

    def _set_read(self) -> Command:
        key = self._key_of(b"s")
        return self._pick(
            (
                [self._pick((b"SCARD", b"SMEMBERS")), key],
                [b"SISMEMBER", key, self._element()],
                [b"SMISMEMBER", key, *self._some(MEMBERS)],
                [b"SSCAN", key, self._pick((b"0", b"0", b"x", b"")), *self._scan_options()],
            )
        )

    def _set_algebra(self) -> Command:
        name = self._pick((b"SUNION", b"SINTER", b"SDIFF"))
        limit = self._maybe(0.4, b"LIMIT", self._pick((b"0", b"1", b"2", b"-1", b"x")))
        return self._pick(
            (
                [name, *self._keys_of(b"s")],
                [name + b"STORE", self._key_of(b"s"), *self._keys_of(b"s")],
                [b"SINTERCARD", *self._numbered(b"s"), *limit],
            )
        )

    def _picks(self) -> list[bytes]:
        return self._maybe(
            0.7, self._pick((b"0", b"1", b"2", b"-2", b"-7", b"100", b"1000", b"x", b"-9223372036854775808"))
        )

    def _set_random(self) -> Command:
        return [self._pick((b"SPOP", b"SRANDMEMBER")), self._key_of(b"s"), *self._picks()]

    # --- sorted sets -------------------------------------------------------------------------------------------

    def _zadd(self) -> Command:
        options = self._mixed(
            self._maybe(0.15, self._pick((b"NX", b"XX"))),
            self._maybe(0.15, self._pick((b"GT", b"LT"))),
            self._maybe(0.2, b"CH"),
        )
        if self.random.random() < 0.2:
            return [b"ZADD", self._key_of(b"z"), *options, b"INCR", self._score(), self._element()]
        if self.random.random() < 0.15:
            return [b"ZINCRBY", self._key_of(b"z"), self._score(), self._element()]
        if self.random.random() < 0.3:
            return [b"ZADD", self._key_of(b"x"), *(w for member in self._some(MEMBERS, 6) for w in (b"0", member))]
        pairs = [word for member in self._some(MEMBERS, 6) for word in (self._score(), member)]
        return [b"ZADD", self._key_of(b"z"), *options, *pairs]

    def _zrem(self) -> Command:
        return [b"ZREM", self._key_of(b"z"), *self._some(MEMBERS)]

    def _zset_read(self) -> Command:
        key = self._key_of(b"z")
        return self._pick(
            (
                [b"ZCARD", key],
                [b"ZSCORE", key, self._element()],
                [b"ZMSCORE", key, *self._some(MEMBERS)],
                [self._pick((b"ZRANK", b"ZREVRANK")), key, self._element()],
                [b"ZCOUNT", key, self._bound(), self._bound()],
                [b"ZLEXCOUNT", self._key_of(b"x"), self._pick(LEX), self._pick(LEX)],
                [b"ZSCAN", key, b"0", *self._scan_options()],
            )
        )

    def _bound(self) -> bytes:
        bound = self._pick((b"-inf", b"+inf", *SCORES)) if self.random.random() < 0.9 else self._pick(NEARLY_SCORES)
        return self._pick((b"", b"", b"(")) + bound

    def _limit(self) -> list[bytes]:
        return self._maybe(0.4, b"LIMIT", self._pick(NUMBERS), self._pick((*NUMBERS, b"-1", b"-1")))

    def _range(self) -> list[bytes]:
        """The key, ends and options of ZRANGE, but WITHSCORES."""
        by = self._pick((b"", b"BYSCORE", b"BYLEX"))
        reverse = self._maybe(0.4, b"REV")
        if by == b"BYSCORE":
            ends = [self._bound(), self._bound()]
        elif by == b"BYLEX":
            ends = [self._pick(LEX), self._pick(LEX)]
        else:
            ends = [self._pick((b"0", *INTEGERS)), self._pick((b"-1", *INTEGERS))]
        limit = self._limit() if by or self.random.random() < 0.1 else []
        key = self._key_of(b"x" if by == b"BYLEX" else b"z")
        return [key, *ends, *self._mixed([by] if by else [], reverse, limit)]

    def _zrange(self) -> Command:
        return [b"ZRANGE", *self._range(), *self._maybe(0.5, b"WITHSCORES")]

    def _zrangestore(self) -> Command:
        return [b"ZRANGESTORE", self._key_of(b"z"), *self._range()]

    def _zrange_old(self) -> Command:
        key = self._key_of(b"z")
        scores = self._maybe(0.5, b"WITHSCORES")
        return self._pick(
            (
                [b"ZREVRANGE", key, self._pick(NUMBERS), self._pick((b"-1", *NUMBERS)), *scores],
                [b"ZRANGEBYSCORE", key, self._bound(), self._bound(), *self._mixed(scores, self._limit())],
                [b"ZREVRANGEBYSCORE", key, self._bound(), self._bound(), *self._mixed(scores, self._limit())],
                [b"ZRANGEBYLEX", self._key_of(b"x"), self._pick(LEX), self._pick(LEX), *self._limit()],
                [b"ZREVRANGEBYLEX", self._key_of(b"x"), self._pick(LEX), self._pick(LEX), *self._limit()],
            )
        )

    def _zremrange(self) -> Command:
        key = self._key_of(b"z")
        return self._pick(
            (
                [b"ZREMRANGEBYRANK", key, self._pick(NUMBERS), self._pick(NUMBERS)],
                [b"ZREMRANGEBYSCORE", key, self._bound(), self._bound()],
                [b"ZREMRANGEBYLEX", self._key_of(b"x"), self._pick(LEX), self._pick(LEX)],
            )
        )

    def _zpop(self) -> Command:
        end = self._pick((b"MIN", b"MAX", b"min"))
        name = self._pick((b"ZPOPMIN", b"ZPOPMAX"))
        return self._pick(
            (
                [name, self._key_of(b"z"), *self._maybe(0.5, self._pick(NUMBERS))],
                [b"B" + name, *self._keys_of(b"z"), self._waits()],
                [b"ZMPOP", *self._numbered(b"z"), end, *self._count_option()],
                [b"BZMPOP", self._waits(), *self._numbered(b"z"), end, *self._count_option()],
            )
        )

    def _zset_algebra(self) -> Command:
        name = self._pick((b"ZUNION", b"ZINTER", b"ZDIFF"))
        inputs = self._numbered(b"z")
        if self.random.random() < 0.2:
            inputs[-1] = self._key_of(b"s")
        weights = self._maybe(0.3, b"WEIGHTS", *(self._score() for _ in inputs[1:]))
        aggregate = self._maybe(0.4, b"AGGREGATE", self._pick((b"SUM", b"MIN", b"MAX", b"x")))
        options = self._mixed(weights, aggregate) if name != b"ZDIFF" or self.random.random() < 0.1 else []
        if self.random.random() < 0.15:
            return [b"ZINTERCARD", *inputs, *self._maybe(0.5, b"LIMIT", self._pick((b"0", b"1", b"2", b"-1", b"x")))]
        if self.random.random() < 0.5:
            return [name + b"STORE", self._key_of(b"z"), *inputs, *options]
        return [name, *inputs, *options, *self._maybe(0.5, b"WITHSCORES")]

    def _zset_random(self) -> Command:
        picks = self._picks()
        return [b"ZRANDMEMBER", self._key_of(b"z"), *picks, *(self._maybe(0.4, b"WITHSCORES") if picks else [])]

    # --- places ------------------------------------------------------------------------------------------------

    def _place(self) -> list[bytes]:
        return [self._pick((b"13.361389", b"15.087269", b"-120.5", b"0", b"181", b"-180")), self._pick(LATITUDES)]

    def _geoadd(self) -> Command:
        options = self._mixed(self._maybe(0.2, self._pick((b"NX", b"XX"))), self._maybe(0.2, b"CH"))
        return [b"GEOADD", self._key_of(b"g"), *options, *self._place(), self._element(), *self._place(), b"a"]

    def _geo_read(self) -> Command:
        name, key = self._pick((b"GEOPOS", b"GEOHASH", b"GEODIST")), self._key_of(b"g")
        if name == b"GEODIST":
            return [name, key, self._element(), self._element(), *self._maybe(0.5, self._pick(UNITS))]
        return [name, key, *self._some(MEMBERS)]

    def _geo_options(self) -> list[bytes]:
        shown = [self._maybe(0.3, word) for word in (b"WITHDIST", b"WITHHASH", b"WITHCOORD")]
        any_of = self._maybe(0.2, b"COUNT", self._pick((b"1", b"2", b"0")), b"ANY")
        return self._mixed(*shown, self._maybe(0.3, self._pick((b"ASC", b"DESC"))), any_of)

    def _geosearch(self) -> Command:
        length, unit = self._pick((b"0", b"200", b"5000", b"1e4", b"-1", b"x")), self._pick(UNITS)
        centre = self._pick(([b"FROMMEMBER", self._element()], [b"FROMLONLAT", *self._place()]))
        area = self._pick(([b"BYRADIUS", length, unit], [b"BYBOX", length, b"900", unit]))
        if self.random.random() < 0.4:
            keys = [self._key_of(b"g"), self._key_of(b"g")]
            return [b"GEOSEARCHSTORE", *keys, *centre, *area, *self._maybe(0.2, b"STOREDIST")]
        return [b"GEOSEARCH", self._key_of(b"g"), *centre, *area, *self._geo_options()]

    def _georadius(self) -> Command:
        name = self._pick((b"GEORADIUS", b"GEORADIUSBYMEMBER"))
        centre = self._place() if name == b"GEORADIUS" else [self._element()]
        words = [self._key_of(b"g"), *centre, self._pick((b"1", b"200", b"1e4")), self._pick(UNITS)]
        if self.random.random() < 0.4:
            return [name, *words, self._pick((b"STORE", b"STOREDIST")), self._key_of(b"g")]
        return [name + self._pick((b"", b"_RO")), *words, *self._geo_options()]

    # --- hashes ------------------------------------------------------------------------------------------------

    def _hset(self) -> Command:
        pairs = [word for field in self._some(MEMBERS, 4) for word in (field, self._text())]
        return [self._pick((b"HSET", b"HSET", b"HMSET")), self._key_of(b"h"), *pairs, *self._maybe(0.05, b"odd")]

    def _hash_change(self) -> Command:
        key, field = self._key_of(b"h"), self._element()
        return self._pick(
            (
                [b"HDEL", key, *self._some(MEMBERS)],
                [b"HSETNX", key, field, self._text()],
                [b"HINCRBY", key, field, self._pick(INTEGERS)],
                [b"HINCRBYFLOAT", key, field, self._pick(FLOATS)],
            )
        )

    def _hash_read(self) -> Command:
        key, field = self._key_of(b"h"), self._element()
        return self._pick(
            (
                [self._pick((b"HLEN", b"HGETALL", b"HKEYS", b"HVALS")), key],
                [self._pick((b"HGET", b"HEXISTS", b"HSTRLEN")), key, field],
                [b"HMGET", key, *self._some(MEMBERS)],
                [b"HSCAN", key, b"0", *self._scan_options()],
            )
        )

    def _hash_random(self) -> Command:
        picks = self._picks()
        return [b"HRANDFIELD", self._key_of(b"h"), *picks, *(self._maybe(0.4, b"WITHVALUES") if picks else [])]

    # --- keys of any type --------------------------------------------------------------------------------------

    def _key(self) -> Command:
        kind = self._pick(TYPES)
        keys = [self._key_of(kind), self._key_of(kind)]
        return self._pick(
            (
                [self._pick((b"TYPE", b"PTTL", b"EXISTS")), keys[0]],
                [b"PERSIST", keys[0]],
                [b"PEXPIRE", keys[0], b"%d" % HOUR_MS],
                [b"RENAME", *keys],
                [b"COPY", *keys, *self._maybe(0.7, b"REPLACE")],
                [b"DEL", keys[0]],
                [b"SCAN", b"0", b"COUNT", b"1000", b"TYPE", self._pick((b"hash", b"zset", b"list", b"set", b"string"))],
                [b"OBJECT", b"ENCODING", keys[0]],
            )
        )
