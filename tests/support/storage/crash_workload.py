"""Random commands of the kinds that change data, aimed at what is there: most of them find something to do.

Rules of queues are set, changed and removed while messages are pending. Their times are near those that pass between
two steps of a life, so that what they say comes to pass.

Some values are larger than a few sectors, so that a sector can be missing inside one, which only a checksum shows. Some
are zeros, which look like a missing sector.
"""

from collections.abc import Sequence
from random import Random

from headrace.core.group import Group
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.engine.rules.dead_letters import Origin

Command = list[bytes]

DATABASES = 2
STREAMS = (b"s1", b"s2", b"s3")
GROUPS = (b"g1", b"g2")
CONSUMERS = (b"alice", b"bob", b"carol")
OTHERS = (b"text", b"list", b"set", b"s3")
REMOVING = (b"XGROUP", b"DEL", b"RENAME", b"MOVE")  # after these, a consumer that was there may be there no more
POLICIES = (b"KEEPREF", b"DELREF", b"ACKED")


class CommandWriter:
    """Writes commands for an engine, whose data it looks at."""

    def __init__(self, random: Random, *, of_a_queue: bool = False) -> None:
        """Begin; with most of it about one group of one stream, which has rules, where it is of a queue."""
        self._random = random
        self._of_a_queue = of_a_queue
        self._of_queues = {self._xadd: 5, self._xreadgroup: 7, self._xnack: 3, self._xack: 2, self._queue_rule: 2}
        self._makers = {
            self._xadd: 24,
            self._xreadgroup: 14,
            self._xack: 8,
            self._xgroup: 6,
            self._xclaim: 5,
            self._xautoclaim: 3,
            self._xnack: 3,
            self._xdel: 4,
            self._xdelex: 2,
            self._xackdel: 2,
            self._xtrim: 3,
            self._xsetid: 1,
            self._other: 5,
            self._removal: 2,
            self._expiry: 3,
            self._schedule: 4,
            self._dead_letter: 4,
            self._rule: 5,
        }

    def write(self, engine: Engine, database: int, queued: Sequence[Command] = ()) -> Command:
        """Write one command for a client of this database, that will run behind those that it has queued."""
        if self._of_a_queue and self._chance(0.7):
            return self._write_of_a_queue(engine, database)
        (make,) = self._random.choices(list(self._makers), list(self._makers.values()))
        if make in (self._xclaim, self._xautoclaim) and any(name in REMOVING for name, *_ in queued):
            make = self._xack
        values = engine.databases[database].values
        key = self._random.choice(STREAMS)
        value = values.get(key)
        return make(key, value if isinstance(value, Stream) else Stream())

    def _write_of_a_queue(self, engine: Engine, database: int) -> Command:
        key, group = STREAMS[0], GROUPS[0]
        value = engine.databases[database].values.get(key)
        if not isinstance(value, Stream) or value.group(group) is None:
            return [b"XGROUP", b"CREATE", key, group, b"0", b"MKSTREAM"]
        (make,) = self._random.choices(list(self._of_queues), list(self._of_queues.values()))
        return make(key, value)

    # --- what there is to choose from ------------------------------------------------------------------------------

    def _chance(self, likelihood: float) -> bool:
        return self._random.random() < likelihood

    def _entry_ids(self, stream: Stream) -> list[bytes]:
        ids = [bytes(id) for id, _ in stream.range()]
        return self._some(ids) or [b"1-1"]

    def _pending_ids(self, group: Group | None, stream: Stream) -> list[bytes]:
        ids = [bytes(id) for id, *_ in group.pending_records()] if group is not None else []
        return self._some(ids) or self._entry_ids(stream)

    def _some(self, ids: list[bytes]) -> list[bytes]:
        return self._random.sample(ids, min(len(ids), self._random.choice((1, 1, 2, 5))))

    def _group(self, stream: Stream) -> tuple[bytes, Group | None]:
        name = self._random.choice([group.name for group in stream.group_list()] or [self._random.choice(GROUPS)])
        return name, stream.group(name)

    def _consumer(self) -> bytes:
        return self._random.choice(CONSUMERS)

    def _known_consumer(self, group: Group | None) -> bytes | None:
        names = [consumer.name for consumer in group.consumer_list()] if group is not None else []
        return self._random.choice(names) if names else None

    def _fields(self) -> list[bytes]:
        size = self._random.choice((1, 8, 30, 200, 490, 700, 3000))
        value = bytes(size) if self._chance(0.1) else self._random.randbytes(size)
        return [b"f", value, *([b"name", b"value"] if self._chance(0.3) else [])]

    def _trimming(self) -> list[bytes]:
        if self._chance(0.7):
            return [b"MAXLEN", self._random.choice((b"=", b"~")), b"%d" % self._random.randint(3, 25)]
        return [b"MINID", self._random.choice((b"=", b"~")), b"%d" % self._random.randint(1, 10**13)]

    # --- entries ---------------------------------------------------------------------------------------------------

    def _xadd(self, key: bytes, stream: Stream) -> Command:
        options: list[bytes] = []
        if self._chance(0.1):
            options.append(b"NOMKSTREAM")
        if self._chance(0.15):
            options.append(self._random.choice(POLICIES))
        if self._chance(0.5):
            options += self._trimming()
        if self._chance(0.1):
            iid = b"%d" % self._random.randint(1, 9)
            return [b"XADD", key, *options, b"IDMP", b"producer", iid, b"*", *self._fields()]
        if self._chance(0.05):
            return [b"XADD", key, *options, b"IDMPAUTO", b"producer", b"*", b"f", b"%d" % self._random.randint(1, 3)]
        last = stream.last_id
        explicit = b"%d-%d" % (last.ms + self._random.choice((0, 1, 7)), last.seq + 1)
        return [b"XADD", key, *options, b"*" if self._chance(0.6) else explicit, *self._fields()]

    def _xdel(self, key: bytes, stream: Stream) -> Command:
        return [b"XDEL", key, *self._entry_ids(stream)]

    def _xdelex(self, key: bytes, stream: Stream) -> Command:
        ids = self._entry_ids(stream)
        return [b"XDELEX", key, self._random.choice(POLICIES), b"IDS", b"%d" % len(ids), *ids]

    def _xtrim(self, key: bytes, _stream: Stream) -> Command:
        return [b"XTRIM", key, *self._trimming(), *([self._random.choice(POLICIES)] if self._chance(0.3) else [])]

    def _xsetid(self, key: bytes, stream: Stream) -> Command:
        last = b"%d-%d" % (stream.last_id.ms + 1, self._random.randint(0, 3))
        if self._chance(0.5):
            return [b"XSETID", key, last]
        added = b"%d" % (stream.entries_added + self._random.randint(0, 5))
        return [b"XSETID", key, last, b"ENTRIESADDED", added, b"MAXDELETEDID", bytes(stream.max_deleted_id)]

    # --- groups ----------------------------------------------------------------------------------------------------

    def _xgroup(self, key: bytes, stream: Stream) -> Command:
        name = self._random.choice(GROUPS)
        start = self._random.choice((b"0", b"$", *self._entry_ids(stream)))
        position = [b"ENTRIESREAD", b"%d" % self._random.randint(0, 9)] if self._chance(0.3) else []
        kind = self._random.randrange(12)
        if kind < 5 or not stream.group_list():
            return [b"XGROUP", b"CREATE", key, name, start, b"MKSTREAM", *position]
        if kind < 7:
            return [b"XGROUP", b"SETID", key, name, start, *position]
        if kind < 8:
            return [b"XGROUP", b"DESTROY", key, name]
        return [b"XGROUP", self._random.choice((b"CREATECONSUMER", b"DELCONSUMER")), key, name, self._consumer()]

    def _xreadgroup(self, key: bytes, stream: Stream) -> Command:
        name, _ = self._group(stream)
        options = [b"COUNT", b"%d" % self._random.randint(1, 4)] if self._chance(0.7) else []
        if self._chance(0.15):
            options += [b"BLOCK", b"%d" % self._random.choice((0, 50))]
        if self._chance(0.15):
            options.append(b"NOACK")
        if self._chance(0.15):
            options += [b"CLAIM", b"%d" % self._random.choice((0, 300))]
        keys = [key] if self._chance(0.8) else list(STREAMS[:2])
        behind = b">" if self._chance(0.9) else b"0"
        return [b"XREADGROUP", b"GROUP", name, self._consumer(), *options, b"STREAMS", *keys, *[behind] * len(keys)]

    def _xack(self, key: bytes, stream: Stream) -> Command:
        name, group = self._group(stream)
        return [b"XACK", key, name, *self._pending_ids(group, stream)]

    def _xackdel(self, key: bytes, stream: Stream) -> Command:
        name, group = self._group(stream)
        ids = self._pending_ids(group, stream)
        return [b"XACKDEL", key, name, self._random.choice(POLICIES), b"IDS", b"%d" % len(ids), *ids]

    def _xnack(self, key: bytes, stream: Stream) -> Command:
        name, group = self._group(stream)
        ids = self._pending_ids(group, stream)
        options = [b"RETRYCOUNT", b"3"] if self._chance(0.2) else []
        options += [b"FORCE"] if self._chance(0.2) else []
        mode = self._random.choice((b"SILENT", b"FAIL", b"FATAL"))
        return [b"XNACK", key, name, mode, b"IDS", b"%d" % len(ids), *ids, *options]

    def _xclaim(self, key: bytes, stream: Stream) -> Command:
        name, group = self._group(stream)
        consumer = self._known_consumer(group)
        if consumer is None:
            return self._xreadgroup(key, stream)
        options = [b"RETRYCOUNT", b"%d" % self._random.randint(0, 9)] if self._chance(0.2) else []
        options += [b"IDLE", b"100"] if self._chance(0.2) else []
        options += [self._random.choice((b"FORCE", b"JUSTID"))] if self._chance(0.4) else []
        options += [b"LASTID", *self._entry_ids(stream)[:1]] if self._chance(0.2) else []
        idle = self._random.choice((b"0", b"0", b"200"))
        return [b"XCLAIM", key, name, consumer, idle, *self._pending_ids(group, stream), *options]

    def _xautoclaim(self, key: bytes, stream: Stream) -> Command:
        name, group = self._group(stream)
        consumer = self._known_consumer(group)
        if consumer is None:
            return self._xreadgroup(key, stream)
        options = [b"COUNT", b"2"] if self._chance(0.5) else []
        idle = self._random.choice((b"0", b"200"))
        return [b"XAUTOCLAIM", key, name, consumer, idle, b"0", *options]

    # --- other values and whole keys -------------------------------------------------------------------------------

    def _other(self, _key: bytes, _stream: Stream) -> Command:
        text = b"%d" % self._random.randint(1, 99)
        return self._random.choice(
            (
                [b"SET", b"text", text, *([b"PX", b"%d" % self._random.randint(1, 2000)] if self._chance(0.3) else [])],
                [b"LPUSH", b"list", text, text],
                [b"RPOP", b"list"],
                [b"SADD", b"set", text],
                [b"SREM", b"set", text],
            )
        )

    def _removal(self, key: bytes, _stream: Stream) -> Command:
        return self._random.choice(([b"DEL", key, b"text"], [b"RENAME", b"s2", b"s3"], [b"MOVE", b"s3", b"1"]))

    def _expiry(self, _key: bytes, _stream: Stream) -> Command:
        key = self._random.choice(OTHERS)
        if self._chance(0.2):
            return [b"PERSIST", key]
        return [b"PEXPIRE", key, b"%d" % self._random.choice((1, 500, 3000, 100_000))]

    def _schedule(self, key: bytes, _stream: Stream) -> Command:
        due = [b"DELAY", self._random.choice((b"0", b"1", b"100", b"1s"))]
        every = [b"EVERY", self._random.choice((b"50", b"1s"))] if self._chance(0.1) else []
        return [b"HEADRACE", b"SCHEDULE", key, *due, *every, *self._fields()]

    def _dead_letter(self, key: bytes, _stream: Stream) -> Command:
        kind = self._random.randrange(8)
        if kind < 5:
            origin = Origin(key, b"1-1", b"former", b"alice", 3, 1, 2, b"deliveries")
            return [b"XADD", b"dead", b"*", b"f", b"%d" % self._random.randint(1, 99), *origin.fields()]
        if kind == 7:
            return [b"HEADRACE", b"REDRIVE", b"dead", b"END"]
        rate = [b"RATE", self._random.choice((b"5", b"100"))] if kind == 6 else []
        return [b"HEADRACE", b"REDRIVE", b"dead", *([b"TO", b"s1"] if self._chance(0.3) else []), *rate]

    # --- rules -----------------------------------------------------------------------------------------------------

    def _rule(self, key: bytes, _stream: Stream) -> Command:
        target = [b"MATCH", self._random.choice((b"s*", b"s[12]"))] if self._chance(0.3) else [key]
        group = [b"GROUP", self._random.choice(GROUPS)] if self._chance(0.7) else []
        if self._chance(0.15):
            return [b"HEADRACE", b"POLICY", b"DEL", *target, *group]
        said = self._rule_of_group() if group else self._rule_of_stream()
        return [b"HEADRACE", b"POLICY", b"SET", *target, *group, *said]

    def _queue_rule(self, key: bytes, stream: Stream) -> Command:
        if self._chance(0.1):
            return [b"HEADRACE", b"POLICY", b"SET", key, b"DROP", b"ACKED"]
        if self._chance(0.1):
            return self._rule(key, stream)
        return [b"HEADRACE", b"POLICY", b"SET", key, b"GROUP", GROUPS[0], *self._rule_of_group(least=3)]

    def _rule_of_stream(self) -> list[bytes]:
        limits = (
            [b"MAXLEN", b"%d" % self._random.randint(1, 20)],
            [b"MAXAGE", self._random.choice((b"50", b"1s", b"5s"))],
            [b"MAXBYTES", self._random.choice((b"500", b"4kb"))],
        )
        said = [word for limit in self._random.sample(limits, self._random.randint(0, 2)) for word in limit]
        if said:
            said += self._random.choice(([], *([policy] for policy in POLICIES)))
        return [*said, *([b"DROP", b"ACKED"] if not said or self._chance(0.4) else [])]

    def _rule_of_group(self, least: int = 1) -> list[bytes]:
        retry = self._random.choice(((b"1", b"1"), (b"20", b"500"), (b"200", b"10s")))
        options = (
            [b"VISIBILITY", self._random.choice((b"1", b"100", b"1s"))],
            [b"RETRY", *retry],
            [b"MAXDELIVERIES", b"%d" % self._random.randint(1, 3)],
            [b"DEADLETTER", self._random.choice((b"dead", b"text"))],
            [b"CONSUMERTTL", self._random.choice((b"300", b"3s"))],
            [b"CREATE", b"FROM", self._random.choice((b"0", b"$"))],
        )
        chosen = self._random.sample(options, self._random.randint(least, len(options)))
        return [word for option in chosen for word in option]
