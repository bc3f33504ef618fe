"""Damaged payloads: whatever is done to one, it is refused as corrupt or it is a stream that holds together.

Each mutant has a seed of its own, and a failure names it: `HEADRACE_SEED=<seed>` begins with that mutant. Where the
process itself dies, the last line of the file `seed` in pytest's temporary directory of this test is the one.
"""

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import HeadraceError, StreamExhausted
from headrace.core.group import Group, Verdict
from headrace.core.listpack import Listpack, is_well_formed
from headrace.core.stream import Policy, Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.formats.dump import open_payload, seal
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.stream_value import Form, dump_stream, read_stream, restore_stream
from support.campaign import LONG, SEED

FIRST_SEED = SEED or (random.SystemRandom().randrange(2**48) if LONG else 1)
MUTANTS = 1_500_000 if LONG else 30_000

GOLDEN = Path(__file__).parent.parent / "golden" / "redis-8.9-payloads.jsonl.gz"
TOP = 2**64 - 1
NOW = 1_800_000_000_000


# --- valid payloads to begin with ------------------------------------------------------------------------------


def plain_stream() -> Stream:
    """Several nodes, with tombstones in them, entries with fields of their own, and integers of every width."""
    stream = Stream(NodeLimits(4096, 5))
    for i in range(23):
        stream.append((b"f", b"%d" % (7**i), b"g", b"v" * i), StreamID(1000 + i // 4, i % 4))
    stream.append((b"own", b"", b"own", b"twice"), "2000-1")
    stream.append((b"f", b"-5", b"g", b"x" * 70), "2000-2")
    stream.delete([StreamID(1000, 1), StreamID(1001, 0), StreamID(1002, 3)])
    stream.trim_to_length(20)
    return stream


def stream_with_groups() -> Stream:
    """Groups at several places: records of three consumers, released ones, vast counts, and deleted entries."""
    stream = plain_stream()
    busy = stream.create_group(b"busy", b"0")
    busy.read_new(b"alice", NOW - 500, 6)
    busy.read_new(b"bob", NOW - 400, 5)
    busy.read_new(b"carol", NOW - 300, 2, noack=True)
    busy.create_consumer(b"idle", NOW - 200)
    held = [record[0] for record in busy.pending_records()]
    busy.claim(b"bob", held[:2], 0, NOW - 100, deliveries=2**40)
    busy.claim(b"alice", held[2:3], 0, NOW - 90, deliveries=2**63 - 1)
    busy.acknowledge(held[3:5])
    busy.release_ids([held[7], held[5]], Verdict.FAIL)
    stream.delete([held[6], held[7]])
    stream.create_group(b"asleep", b"1003-0", 9)
    stream.create_group(b"done", stream.last_id, stream.entries_added)
    return stream


def stream_with_producers() -> Stream:
    stream = Stream()
    stream.producers.configure(300, 7)
    for i in range(12):
        id = stream.append((b"n", b"%d" % i), "*", NOW + i)
        stream.producers.record(b"p%d" % (i % 3), b"message-%d" % i, id)
    stream.producers.duplicates = 4
    stream.create_group(b"g", b"0").read_new(b"c", NOW, 3)
    return stream


def stream_with_big_nodes() -> Stream:
    """A node of over 127 entries, so that its counters are wide, and one with an element of 16383 bytes."""
    stream = Stream(NodeLimits(0, 0))
    for i in range(140):
        stream.append((b"f", b"%d" % i), StreamID(i + 1, 0))
    stream.delete([StreamID(i, 0) for i in range(2, 7)])
    stream.append((b"f", b"x" * (16383 - 5)), "500-0")
    group = stream.create_group(b"all", b"0")
    group.read_new(b"c", NOW)
    return stream


def emptied_stream() -> Stream:
    stream = stream_with_groups()
    stream.trim_to_length(0)
    return stream


def type_15_payload(stream: Stream) -> bytes:
    """The oldest form, which Headrace reads but does not write."""
    writer = RdbWriter()
    writer.raw(b"\x0f")
    writer.length(stream.node_count)
    for master, listpack in stream.nodes():
        writer.string(master.key)
        writer.string(listpack)
    for number in (len(stream), stream.last_id.ms, stream.last_id.seq, len(stream.group_list())):
        writer.length(number)
    for group in stream.group_list():
        writer.string(group.name)
        writer.length(group.last_delivered_id.ms)
        writer.length(group.last_delivered_id.seq)
        owned = [record for record in group.pending_records() if record[1] is not None]
        writer.length(len(owned))
        for id, _, time, deliveries in owned:
            writer.raw(id.key)
            writer.milliseconds(time)
            writer.length(deliveries)
        writer.length(len(group.consumer_list()))
        for consumer in group.consumer_list():
            writer.string(consumer.name)
            writer.milliseconds(consumer.seen_time)
            writer.length(len(consumer))
            writer.raw(b"".join(id.key for id in consumer.pending_ids()))
    return seal(writer.getvalue(), 9)


def made_payloads() -> list[bytes]:
    made = [plain_stream(), stream_with_groups(), stream_with_producers(), emptied_stream(), Stream()]
    payloads = [dump_stream(stream, form.server) for stream in made for form in Form]
    payloads += [dump_stream(stream) for stream in made]
    payloads += [type_15_payload(stream) for stream in made]
    compressed = RdbWriter(compress=True)
    compressed.raw(b"\x1b")
    for master_and_listpack in [list(plain_stream().nodes())]:
        compressed.length(len(master_and_listpack))
        for master, listpack in master_and_listpack:
            compressed.string(master.key)
            compressed.string(listpack)
    _, rest = split_after_nodes(dump_stream(plain_stream(), "8.8"))
    payloads.append(seal(compressed.getvalue() + rest, 14))
    payloads.append(dump_stream(stream_with_big_nodes()))
    payloads.append(dump_stream(stream_with_big_nodes(), "7.0"))
    return payloads


def split_after_nodes(payload: bytes) -> tuple[bytes, bytes]:
    body, _ = open_payload(payload)
    reader = RdbReader(body, 1)
    for _ in range(reader.length()):
        reader.string()
        reader.string()
    return bytes(body[: reader.position]), bytes(body[reader.position :])


def golden_payloads() -> list[bytes]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [bytes.fromhex(json.loads(line)["dump"]) for line in lines]


# --- where the values are --------------------------------------------------------------------------------------


class Token(NamedTuple):
    """One value of a payload: a length, a string, a time, or raw IDs."""

    kind: str
    start: int
    end: int


class TracingReader(RdbReader):
    """Log where each value of a valid payload stands."""

    __slots__ = ("tokens",)

    def __init__(self, *_: object) -> None:
        self.tokens: list[Token] = []

    def length(self) -> int:
        start = self.position
        value = super().length()
        self.tokens.append(Token("length", start, self.position))
        return value

    def string(self) -> bytes:
        start = self.position
        known = len(self.tokens)
        value = super().string()
        del self.tokens[known:]
        self.tokens.append(Token("string", start, self.position))
        return value

    def milliseconds(self) -> int:
        start = self.position
        value = super().milliseconds()
        self.tokens.append(Token("time", start, self.position))
        return value

    def raw(self, size: int) -> bytes:
        start = self.position
        value = super().raw(size)
        self.tokens.append(Token("raw", start, self.position))
        return value


class Sample:
    """A valid payload taken apart."""

    def __init__(self, payload: bytes) -> None:
        body, self.version = open_payload(payload)
        self.body = bytes(body)
        reader = TracingReader(self.body, 1)
        read_stream(reader, self.body[0])
        self.tokens = []
        at = 1
        for token in reader.tokens:
            if token.start > at:  # pending records, which are taken many at a time
                self.tokens.append(Token("raw", at, token.start))
            if token.end > token.start:
                self.tokens.append(token)
            at = token.end


# --- damage ----------------------------------------------------------------------------------------------------

TELLING_BYTES = [0, 1, 2, 3, 0x0F, 0x10, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0x82, 0xBF, 0xC0, 0xC3, 0xF0, 0xF4, 0xFE, 0xFF]
TELLING_NUMBERS = [0, 1, 2, 3, 63, 64, 127, 128, 16383, 16384, 2**31, 2**32 - 1, 2**32, 2**60, 2**62, 2**63 - 1, 2**63]
TELLING_NUMBERS += [TOP - 1, TOP]
TELLING_TIMES = [-(2**63), -(2**63) + 1, -(2**62), -2, -1, 0, 1, NOW, NOW + 1, 2**62, 2**63 - 1]

Damage = Callable[[random.Random, Sample, list[Sample]], bytes]


def flip_bits(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    data = bytearray(sample.body)
    for _ in range(dice.choice([1, 1, 1, 2, 8])):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def set_bytes(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    data = bytearray(sample.body)
    for _ in range(dice.choice([1, 1, 2, 3])):
        data[dice.randrange(len(data))] = dice.choice(TELLING_BYTES)
    return bytes(data)


def truncate(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    return sample.body[: dice.randrange(len(sample.body))]


def cut_out(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    at = dice.randrange(len(sample.body))
    return sample.body[:at] + sample.body[at + dice.choice([1, 1, 2, 8, 16, 24, 25]) :]


def put_in(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    at = dice.randrange(len(sample.body) + 1)
    return sample.body[:at] + dice.randbytes(dice.choice([1, 1, 2, 8, 16, 25])) + sample.body[at:]


def splice(dice: random.Random, sample: Sample, others: list[Sample]) -> bytes:
    """The front of one payload and the back of another, cut between two values of each."""
    other = dice.choice(others)
    front = dice.choice(sample.tokens).start if sample.tokens else 1
    back = dice.choice(other.tokens).start if other.tokens else 1
    return sample.body[:front] + other.body[back:]


def call_it_another_type(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    return bytes([dice.choice([15, 19, 21, 26, 27, 0, 255])]) + sample.body[1:]


def change_values(dice: random.Random, sample: Sample, _others: list[Sample]) -> bytes:
    """Values replaced by other ones that are well-formed, so that what they mean is what is judged."""
    body = sample.body
    if not sample.tokens:
        return body
    chosen = {dice.choice(sample.tokens) for _ in range(dice.choice([1, 1, 1, 2, 3]))}
    for token in sorted(chosen, key=lambda token: -token.start):
        body = body[: token.start] + other_value(dice, body[token.start : token.end], token, sample) + body[token.end :]
    return body


def other_value(dice: random.Random, raw: bytes, token: Token, sample: Sample) -> bytes:
    writer = RdbWriter()
    reader = RdbReader(raw)
    if dice.random() < 0.1:  # another value of the same kind, or none, or twice the same
        alike = [other for other in sample.tokens if other.kind == token.kind]
        taken = dice.choice(alike)
        return dice.choice([sample.body[taken.start : taken.end], b"", raw + raw])
    if token.kind == "length":
        value = reader.length()
        near = [value + 1, value - 1, value * 2, value // 2, value ^ 1, value + 2]
        writer.length(dice.choice([*near, dice.choice(TELLING_NUMBERS), dice.choice(TELLING_NUMBERS)]) & TOP)
    elif token.kind == "time":
        writer.milliseconds(dice.choice(TELLING_TIMES))
    elif token.kind == "raw":
        writer.raw(other_ids(dice, raw))
    else:
        writer.string(other_string(dice, reader.string()))
    return writer.getvalue()


def other_ids(dice: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    # A list of IDs is a multiple of 16 bytes; of records, mostly one of 25.
    step = 16 if len(data) % 16 == 0 else 25
    a, b = (dice.randrange(max(1, len(data) // step)) * step for _ in range(2))
    match dice.randrange(4):
        case 0:
            data[a : a + 16], data[b : b + 16] = data[b : b + 16], data[a : a + 16]
        case 1:
            data[a : a + 16] = data[b : b + 16]
        case 2 if step == 25:
            data[a + 16 : a + 24] = dice.choice(TELLING_TIMES).to_bytes(8, "little", signed=True)
        case _:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def other_string(dice: random.Random, text: bytes) -> bytes:
    if is_well_formed(text):
        listpack = Listpack.from_bytes(text)
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            change_element(dice, listpack)
        return bytes(listpack)
    if len(text) == 16:
        number = int.from_bytes(text, "big") + dice.choice([-1, 1, -5, 5, 1 << 64, -(1 << 64), dice.getrandbits(128)])
        return (number % (1 << 128)).to_bytes(16, "big")
    return dice.choice([b"", text + b"x", text[:-1], b"busy", b"alice", b"12", dice.randbytes(16), b"y" * 70])


def change_element(dice: random.Random, listpack: Listpack) -> None:
    if not len(listpack):
        return
    # Half of the time the first few, which are the counters and the master's fields.
    at = dice.randrange(len(listpack) if dice.random() < 0.5 else min(12, len(listpack)))
    value = listpack[at]
    match dice.randrange(5):
        case 0:
            del listpack[at]
        case 1:
            listpack.insert(at, dice.choice([0, 1, 2, 3, 5, b"x", value]))
        case 2:
            others: list[int | bytes] = [0, 1, 2, 3, -1, 127, 128, 2**62, 2**63 - 1, -(2**63), b"", b"text"]
            listpack[at] = dice.choice(others)
        case _:
            nearby = value + dice.choice([-2, -1, 1, 2, 128]) if isinstance(value, int) else value + b"!"
            listpack[at] = max(-(2**63), min(nearby, 2**63 - 1)) if isinstance(nearby, int) else nearby


DAMAGES: list[Damage] = [flip_bits, set_bytes, truncate, cut_out, put_in, splice, call_it_another_type]
DAMAGES += [change_values] * 9


# --- a stream that holds together ------------------------------------------------------------------------------


def check_entries(stream: Stream) -> list[StreamID]:
    entries = list(stream.range())
    ids = [id for id, _ in entries]
    assert ids == sorted(set(ids))
    assert len(ids) == len(stream) == stream.count()
    assert [id for id, _ in stream.range(reverse=True)] == ids[::-1]
    assert all(fields and len(fields) % 2 == 0 for _, fields in entries)
    assert stream.first_id == (ids[0] if ids else MIN_ID)
    assert not ids or ids[-1] <= stream.last_id
    assert len(stream) <= stream.entries_added < 2**63
    for id, fields in (*entries[:3], *entries[-3:]):
        assert stream.get(id) == fields
        assert id in stream
    if ids:
        middle = ids[len(ids) // 2]
        assert [id for id, _ in stream.range(middle, count=2)] == ids[len(ids) // 2 :][:2]
        assert [id for id, _ in stream.range(None, middle, reverse=True, count=2)] == ids[: len(ids) // 2 + 1][::-1][:2]
    assert len(list(stream.nodes())) == stream.node_count
    assert stream.memory_usage > 0
    stream.position_of(stream.last_id)
    return ids


def check_group(group: Group) -> None:
    by_id = group.pending_records()
    in_order = group.delivery_order()
    assert len(by_id) == group.pending_count
    assert [record[0] for record in by_id] == sorted({record[0] for record in by_id})
    assert sorted(in_order) == sorted(by_id) if all(r[1] is not None for r in by_id) else len(in_order) == len(by_id)
    assert {record[0] for record in in_order} == {record[0] for record in by_id}
    owners = [record[1] for record in in_order]
    assert owners[: group.released_count] == [None] * group.released_count
    assert None not in owners[group.released_count :]
    times = [record[2] for record in in_order[group.released_count :]]
    assert times == sorted(times)
    for consumer in group.consumer_list():
        mine = [record[0] for record in by_id if record[1] == consumer.name]
        assert consumer.pending_ids() == mine
        assert len(consumer) == len(mine)
        assert [record[0] for record in group.pending_records(consumer=consumer.name)] == mine
    assert sum(len(consumer) for consumer in group.consumer_list()) + group.released_count == len(by_id)
    assert all(0 <= record[3] <= TOP for record in by_id)
    assert group.position is None or group.position >= 0
    assert group.memory_usage >= 0
    assert group.lag is None or isinstance(group.lag, int)


def check(stream: Stream) -> list[StreamID]:
    ids = check_entries(stream)
    names = [group.name for group in stream.group_list()]
    assert names == sorted(set(names))
    for group in stream.group_list():
        assert stream.group(group.name) is not None
        check_group(group)
    return ids


def check_dumps(dice: random.Random, stream: Stream) -> None:
    """It can be written, and what is written is the same stream again."""
    payload = dump_stream(stream, "8.8")
    again = restore_stream(payload)
    check(again)
    assert dump_stream(again, "8.8") == payload
    restore_stream(dump_stream(stream, dice.choice(["auto", "7.0", "7.2", "8.6"])))
    assert dump_stream(stream.copy(), "8.8") == payload


def use_group(dice: random.Random, group: Group) -> None:
    held = [record[0] for record in group.pending_records()]
    some = dice.sample(held, min(len(held), 5))
    now = dice.choice([NOW, 0, 2**62])
    known = [consumer.name for consumer in group.consumer_list()]
    name = dice.choice([*known, b"newcomer"])
    actions: list[Callable[[], object]] = [
        lambda: group.read_new(name, now, dice.choice([0, 1, 3])),
        lambda: group.read_history(name, MIN_ID, now),
        lambda: group.read_stale(name, dice.choice([0, 10, 2**62]), now),
        lambda: group.claim(name, some, dice.choice([0, 10]), now),
        lambda: group.auto_claim(name, dice.choice([0, 10]), MIN_ID, now, 3),
        lambda: group.release_ids(some[:2], dice.choice(list(Verdict))),
        lambda: group.acknowledge(some[1:3]),
        lambda: group.delete_consumer(name),
    ]
    for action in dice.sample(actions, 4):
        action()
    check_group(group)


def use(dice: random.Random, stream: Stream) -> None:
    """Everything that changes a stream, then another look."""
    ids = check(stream)
    for group in stream.group_list():
        use_group(dice, group)
    some = dice.sample(ids, min(len(ids), 4))
    stream.delete_with(some, dice.choice(list(Policy)))
    check_entries(stream)
    try:
        added = stream.append((b"f", b"1", b"g", b"2"), b"*", NOW)
        assert added > max(ids, default=MIN_ID)
        stream.append((b"f", b"1"), b"*", NOW)
    except StreamExhausted:
        assert stream.last_id >= StreamID(TOP, TOP - 1)
    if ids:
        stream.trim_to_id(dice.choice(ids), dice.random() < 0.5, 0, dice.choice(list(Policy)))
    check_entries(stream)
    stream.trim_to_length(len(stream) // 2, dice.random() < 0.5, 0, dice.choice(list(Policy)))
    check(stream)
    if stream.group_list():
        name = stream.group_list()[0].name
        stream.acknowledge_and_delete(name, some, Policy.ACKED)
        stream.destroy_group(name)
    stream.trim_to_length(0)
    assert len(stream) == len(list(stream.range())) == stream.node_count == 0
    assert stream.delete([MIN_ID, MAX_ID]) == 0


# --- the campaign ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [Sample(payload) for payload in (*golden_payloads(), *made_payloads())]


def test_every_payload_to_begin_with_is_good(samples: list[Sample]) -> None:
    assert len(samples) == 164 + 33
    assert {sample.body[0] for sample in samples} == {15, 19, 21, 26, 27}
    for number, sample in enumerate(samples):
        stream = restore_stream(seal(sample.body, sample.version))
        check(stream)
        check_dumps(random.Random(number), stream)
        use(random.Random(number), stream)


@pytest.mark.slow
def test_a_damaged_payload_is_refused_or_is_a_stream_that_holds_together(samples: list[Sample], tmp_path: Path) -> None:
    accepted = refused = 0
    with (tmp_path / "seed").open("wb", buffering=0) as last:
        for seed in range(FIRST_SEED, FIRST_SEED + MUTANTS):
            os.pwrite(last.fileno(), b"%d\n" % seed, 0)
            try:
                if survives(seed, samples):
                    accepted += 1
                else:
                    refused += 1
            except Exception as error:
                error.add_note(f"replay with HEADRACE_SEED={seed}")
                raise
    assert accepted + refused == MUTANTS
    # Both ways must be well travelled, or the damage is too coarse or too fine.
    assert accepted > MUTANTS // 20, f"only {accepted} of {MUTANTS} were accepted"
    assert refused > MUTANTS // 3, f"only {refused} of {MUTANTS} were refused"


def survives(seed: int, samples: list[Sample]) -> bool:
    """Make one mutant and restore it; False where it was refused. Any exception but CorruptPayload comes through."""
    dice = random.Random(seed)
    sample = dice.choice(samples)
    body = dice.choice(DAMAGES)(dice, sample, samples)
    try:
        stream = restore_stream(seal(body, sample.version))
    except CorruptPayload:
        return False
    check_dumps(dice, stream)
    use(dice, stream)
    return True


def all_truncations(samples: list[Sample]) -> Iterator[bytes]:
    for sample in sorted(samples, key=lambda sample: len(sample.body))[:: 1 if LONG else 20]:
        for size in range(len(sample.body)):
            yield seal(sample.body[:size], sample.version)
        yield seal(sample.body + b"\0", sample.version)


def test_every_truncation_and_every_surplus_is_refused(samples: list[Sample]) -> None:
    count = 0
    for payload in all_truncations(samples):
        with pytest.raises(CorruptPayload):
            restore_stream(payload)
        count += 1
    assert count > 1000


def test_claiming_the_stale_ends_where_another_record_lies_in_the_future() -> None:
    """Regression: a loop without end. A claimed record goes before that one, where the walk met it again and again."""
    stream = Stream()
    for _ in range(3):
        stream.append((b"f", b"v"), b"*", NOW)
    group = stream.create_group(b"g", b"0")
    group.read_new(b"a", NOW, 2)
    group.read_new(b"a", NOW + 1000, 1)
    restored = restore_stream(dump_stream(stream)).group(b"g")
    assert restored is not None
    claimed = restored.read_stale(b"b", 0, NOW)
    assert [(str(id), idle, deliveries) for id, _, idle, deliveries in claimed] == [
        (f"{NOW}-0", 0, 1),
        (f"{NOW}-1", 0, 1),
    ]
    check_group(restored)


@pytest.mark.parametrize("number", [2**31, 2**32, 2**40, 2**60, 2**63, TOP])
def test_no_declared_size_is_believed(samples: list[Sample], number: int) -> None:
    """Each length of a payload in turn promises an enormous amount: it is refused at once, or it was no size."""
    writer = RdbWriter()
    writer.length(number)
    for sample in samples[-33:-2:5]:
        for token in sample.tokens:
            if token.kind == "length":
                body = sample.body[: token.start] + writer.getvalue() + sample.body[token.end :]
                try:
                    stream = restore_stream(seal(body, sample.version))
                except CorruptPayload:
                    continue
                check(stream)


def test_refusals_have_one_cause_and_say_it(samples: list[Sample]) -> None:
    """A contradiction found by core reaches the caller as CorruptPayload with the sentence of core."""
    refusals = []
    for seed in range(3000):
        dice = random.Random(seed)
        sample = dice.choice(samples)
        try:
            restore_stream(seal(change_values(dice, sample, samples), sample.version))
        except CorruptPayload as error:
            refusals.append(error)
    assert len(refusals) > 500
    for refusal in refusals:
        assert str(refusal)
        assert refusal.__cause__ is None or isinstance(refusal.__cause__, HeadraceError)
