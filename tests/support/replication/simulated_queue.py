"""A queue with rules among simulated servers: clients use it, rules keep it, and nothing of it is lost or doubled.

    q     a queue: the group is made by whoever reads first, messages of consumers that do not return come back after a
          wait, or become dead letters, which are put back now and then; some messages are scheduled; what is
          acknowledged goes, and so do consumers that were not seen for long
    log   a stream with limits of length and age, whose pending records go with its entries

Each message has a number. A message whose XADD or SCHEDULE was acknowledged, and whose XACK nobody has sent, is in
exactly one place: scheduled, not yet delivered, pending, or dead. On every server, also on one that lost some: no
message is dead and in the queue at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from headrace.commands.headrace.scheduled_message import decode
from headrace.core.stream import Stream
from headrace.engine.engine import Engine

QUEUE: Final = b"q"
DEAD: Final = b"q:dead"
LOG: Final = b"log"
GROUP: Final = b"workers"
CONSUMERS: Final = (b"x", b"y", b"z")
RULES: Final = (
    (QUEUE, b"DROP", b"ACKED"),
    (QUEUE, b"GROUP", GROUP, *b"VISIBILITY 20ms RETRY 2ms 50ms MAXDELIVERIES 2 CREATE FROM 0".split()),
    (QUEUE, b"GROUP", GROUP, *b"VISIBILITY 10ms MAXDELIVERIES 2 CONSUMERTTL 100ms CREATE FROM 0".split()),
    (QUEUE, b"GROUP", GROUP, *b"RETRY 2ms 1s MAXDELIVERIES 2 CONSUMERTTL 50ms CREATE FROM 0".split()),
    (b"MATCH", b"q*", b"GROUP", GROUP, *b"VISIBILITY 15ms MAXDELIVERIES 3 CREATE FROM 0".split()),
    (LOG, *b"MAXLEN 5 MAXAGE 1s DELREF".split()),
    (b"MATCH", b"lo*", *b"MAXBYTES 300 MAXLEN 8 ACKED".split()),
    (LOG, b"GROUP", GROUP, *b"VISIBILITY 10ms CREATE FROM $".split()),
)

Send = Callable[..., None]


class Queue:
    """See the module."""

    def __init__(self, chance: Random) -> None:
        self._random = chance
        self._count = 0
        self._promised: dict[tuple[int, bytes], None] = {}  # database and number of each message
        self._given: list[tuple[int, bytes, bytes]] = []  # database, number, and ID of what consumers have got
        self._perhaps_ended: set[tuple[int, bytes]] = set()

    def first_commands(self) -> list[tuple[bytes, ...]]:
        """Return the commands with which the rules begin."""
        rules = (RULES[0], self._random.choice(RULES[1:4]), RULES[5])
        return [(b"HEADRACE", b"POLICY", b"SET", *rule) for rule in rules]

    def write(self, db: int, send: Send) -> None:
        """Send a command of a client, by `send(database, then, *words)`."""
        roll = self._random.random()
        if roll < 0.04:
            send(db, _ignore, b"HEADRACE", b"POLICY", b"SET", *self._random.choice(RULES))
        elif roll < 0.25:
            self._add(db, send, b"XADD", QUEUE, b"*")
        elif roll < 0.28:
            self._add(db, send, b"HEADRACE", b"SCHEDULE", QUEUE, b"DELAY", self._random.choice((b"0", b"50", b"2s")))
        elif roll < 0.7:
            self._read(db, send)
        elif roll < 0.84:
            self._settle(db, send)
        elif roll < 0.86:
            send(db, _ignore, b"HEADRACE", b"REDRIVE", DEAD, b"COUNT", b"2")
        elif roll < 0.93:
            send(db, _ignore, b"XADD", LOG, b"*", b"v", b"x" * 50)
        else:
            read = (b"GROUP", GROUP, b"x", b"COUNT", b"2", b"STREAMS", LOG, b">")
            send(db, _ignore, b"XREADGROUP", *read)

    def _add(self, db: int, send: Send, *words: bytes) -> None:
        self._count += 1
        number = b"%d" % self._count

        def added(reply: Any) -> None:
            if not reply.startswith(b"-"):
                self._promised[db, number] = None

        send(db, added, *words, b"n", number)

    def _read(self, db: int, send: Send) -> None:
        def given(reply: Any) -> None:
            if isinstance(reply, list):
                self._given += [(db, fields[1], id) for id, fields in reply[0][1] if fields]

        consumer = self._random.choice(CONSUMERS)
        behind = b">" if self._random.random() < 0.9 else b"0"
        send(db, given, b"XREADGROUP", b"GROUP", GROUP, consumer, b"COUNT", b"2", b"STREAMS", QUEUE, behind)

    def _settle(self, db: int, send: Send) -> None:
        """Acknowledge something, or fail at it."""
        held = [each for each in self._given if each[0] == db]
        if not held:
            return
        _, number, id = self._random.choice(held)
        roll = self._random.random()
        if roll < 0.5:
            self._perhaps_ended.add((db, number))
            send(db, _ignore, b"XACK", QUEUE, GROUP, id)
        elif roll < 0.8:
            verdict = self._random.choice((b"FAIL", b"FATAL", b"SILENT"))
            send(db, _ignore, b"XNACK", QUEUE, GROUP, verdict, b"IDS", b"1", id)
        else:
            send(db, _ignore, b"XAUTOCLAIM", QUEUE, GROUP, b"z", b"100", b"0")

    # --- what must hold --------------------------------------------------------------------------------------------

    def find_faults(self, engine: Engine, tally: Counter[str]) -> tuple[list[str], list[str]]:
        """Name the messages that a server has twice, and those that it does not have, which are forgotten."""
        places: dict[tuple[int, bytes], list[str]] = {}
        for db in engine.databases:
            for where, number in _find_messages(db.values):
                places.setdefault((db.number, number), []).append(where)
                tally[f"messages {where}"] += 1
        doubled = [f"message {each} is {' and '.join(found)}" for each, found in places.items() if len(found) > 1]
        lost = [each for each in self._promised if each not in places and each not in self._perhaps_ended]
        for each in lost:
            del self._promised[each]
        return doubled, [f"message {each}" for each in lost]


def _find_messages(values: dict[bytes, Any]) -> Iterator[tuple[str, bytes]]:
    """Find all messages of a database that are not finished: where each is, and its number."""
    stream = values.get(QUEUE)
    if isinstance(stream, Stream):
        group = stream.group(GROUP)
        pending = {bytes(id) for id, *_ in group.pending_records()} if group is not None else set()
        for id, fields in stream.range():
            if bytes(id) in pending:
                yield "pending", fields[1]
            elif group is None or id > group.last_delivered_id:
                yield "not delivered", fields[1]
    dead = values.get(DEAD)
    for _, fields in dead.range() if isinstance(dead, Stream) else ():
        yield "dead", fields[1]
    for text in values.get(b"headrace:{q}:messages", {}).values():
        message = decode(text)
        if message is not None:
            yield "scheduled", message.fields[1]


def _ignore(_reply: Any) -> None:
    pass
