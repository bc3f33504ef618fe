"""What is measured: one function a workload, and a catalogue of all of them by name.

    prepare(target)            brings the server to where a round starts; not timed
    measure(target, seconds)   one round: {"rate": …, "p50": …, "p99": …, "processor": …, and who used the cores}

Streams that are read have entries with known IDs, 1000000000000-0, 1000000000001-0 and so on, all of one length. A
workload that removes entries works on a COPY of such a stream. A latency is the time from the first byte of a buffer of
requests to the last byte of its replies: with a longer pipeline, it is the latency of the whole pipeline.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import redis

from headrace.measuring.errors import LoadFailed, NoSuchWorkload
from headrace.measuring.load import Load
from headrace.measuring.samples import Figure, Sample
from headrace.measuring.targets import Target, packed

FIRST_MS: Final = 10**12
MOST_BYTES: Final = 256 << 20
"""What a round of XADD may write at most, so that large values do not fill the machine."""
GROUP: Final = b"g"
AT_ONCE: Final = 100
STARTS: Final = 4096
"""Places all over a stream at which reads begin, so that not one of them stays in the cache."""
BLOCKED_SECONDS: Final = 60

RATE: Final = Figure("rate")
P50: Final = Figure("p50", "µs", more_is_better=False, suffix=", p50")
P99: Final = Figure("p99", "µs", more_is_better=False, suffix=", p99")
TOOK: Final = Figure("took", "ms", more_is_better=False)


def nothing(_: Target) -> None:
    """Prepare nothing: the workload finds the server as it is."""


@dataclass(frozen=True)
class Workload:
    """One thing that clients do, and the figures that describe it."""

    slug: str
    name: str
    measure: Callable[[Target, float], Sample]
    prepare: Callable[[Target], None] = nothing
    figures: tuple[Figure, ...] = (RATE,)


@dataclass(frozen=True)
class Shape:
    """What a message looks like: so many fields with values of so many bytes."""

    fields: int = 1
    value_size: int = 10

    def words(self) -> tuple[bytes, ...]:
        """The names and values."""
        value = (b"value-" * (self.value_size // 6 + 1))[: self.value_size]
        return tuple(word for number in range(self.fields) for word in (b"field-%d" % number, value))


# --- driving -------------------------------------------------------------------------------------------------------


def machine_seconds() -> float:
    """Read how long the cores have been busy since boot, with any process."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = Path("/proc/stat").read_text("ascii").split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def _loaded(target: Target, clients: int, work: Callable[[Load], None]) -> tuple[Load, Sample]:
    """Let a load of so many clients work on a server; return also which processes used the cores meanwhile."""
    with ExitStack() as stack:
        lines = [stack.enter_context(target.connect()) for _ in range(clients)]
        load = Load([line.fileno() for line in lines])
        # When the server has answered on each connection, it has accepted all of them, and that is not measured.
        load.run([packed(b"PING")], 1, BLOCKED_SECONDS, clients)
        everything, served = machine_seconds(), target.processor_seconds()
        work(load)
        served = target.processor_seconds() - served
        everything = machine_seconds() - everything
    if load.errors:
        raise LoadFailed(f"{target.name} refused {load.errors} requests, the first with: {load.first_error}")
    sample: Sample = {"p50": load.percentile(0.5), "p99": load.percentile(0.99)}
    if target.pid is not None:
        took = load.seconds or 1e-9
        sample["server busy"] = served / took
        sample["load busy"] = load.processor / took
        sample["others busy"] = max(0.0, everything - served - load.processor) / took
        sample["processor"] = 1e6 * served / (load.requests or 1)
    return load, sample


def drive(
    target: Target, buffers: list[bytes], *, pipeline: int, clients: int, seconds: float, limit: int = -1
) -> Sample:
    """Send prepared buffers: each client sends the next when the last is answered. Figures are of single requests."""
    load, sample = _loaded(target, clients, lambda load: load.run(buffers, pipeline, seconds, limit))
    return sample | {"rate": load.requests / load.seconds}


def request_workload(
    slug: str,
    name: str,
    command: Callable[[Target], tuple[bytes, ...]],
    *,
    pipeline: int = 1,
    clients: int = 50,
    prepare: Callable[[Target], None] = nothing,
) -> Workload:
    """Make a workload of one command that can be repeated forever."""

    def measure(target: Target, seconds: float) -> Sample:
        buffer = packed(*command(target)) * pipeline
        return drive(target, [buffer], pipeline=pipeline, clients=clients, seconds=seconds)

    return Workload(slug, name, measure, prepare)


# --- streams to work on --------------------------------------------------------------------------------------------


def entry_id(number: int) -> bytes:
    """The ID of an entry of a filled stream."""
    return b"%d-0" % (FIRST_MS + number)


def fill(target: Target, key: bytes, first: int, last: int, words: tuple[bytes, ...]) -> None:
    """Append entries number `first` to `last`, without the last."""
    head, tail = packed(b"XADD", key, entry_id(0), *words).split(entry_id(0))
    target.feed(b"%b%d-0%b" % (head, FIRST_MS + number, tail) for number in range(first, last))
    if target.client.xlen(key) != last:
        raise LoadFailed(f"{target.name} holds {target.client.xlen(key)} entries where {last} were written")


class Streams:
    """Streams of so many messages, made on a server when they are first needed."""

    def __init__(self, messages: int, shape: Shape | None = None):
        self.messages = messages
        self.shape = shape or Shape()

    def filled(self, target: Target) -> bytes:
        """A stream that nobody changes."""
        key = target.key(f"filled-{self.messages}-{self.shape.fields}x{self.shape.value_size}")
        if target.client.xlen(key) != self.messages:
            target.client.delete(key)
            fill(target, key, 0, self.messages, self.shape.words())
        return key

    def copied(self, target: Target) -> bytes:
        """The same stream, to be destroyed."""
        return self._copied_to(target, target.key("copied"))

    def unread(self, target: Target) -> bytes:
        """The same stream, with a group that has read nothing."""
        key = self.filled(target)
        target.client.xgroup_destroy(key, GROUP)
        target.client.xgroup_create(key, GROUP, "0")
        return key

    def pending(self, target: Target) -> bytes:
        """The same stream, with a group in which everything is pending for one consumer."""
        key = target.key(f"pending-{self.messages}")
        if not target.client.exists(key):
            self._copied_to(target, key)
            target.client.xgroup_create(key, GROUP, "0")
        read = packed(b"XREADGROUP", b"GROUP", GROUP, b"c0", b"COUNT", b"1000", b"STREAMS", key, b">")
        if target.client.xpending(key, GROUP)["pending"] != self.messages:
            target.feed(read for _ in range(-(-self.messages // 1000)))
        return key

    def _copied_to(self, target: Target, key: bytes) -> bytes:
        """Copy the entries alone: groups would come along."""
        target.execute("COPY", self.filled(target), key, "REPLACE")
        target.client.xgroup_destroy(key, GROUP)
        return key


def places(messages: int, count: int) -> list[int]:
    """Random numbers of entries; behind each there are `count` more, where the stream is long enough."""
    return random.Random(1).choices(range(max(1, messages - count)), k=STARTS)  # noqa: S311 — no secret


def piped(commands: list[bytes], pipeline: int) -> list[bytes]:
    """Join commands to buffers of so many; what is left over is left out."""
    return [b"".join(commands[at : at + pipeline]) for at in range(0, len(commands) - pipeline + 1, pipeline)]


@lru_cache(maxsize=8)
def _buffers_of_ids(messages: int, shuffled: bool, head: tuple[bytes, ...]) -> list[bytes]:
    """Commands that name every ID once, a hundred a command."""
    numbers = list(range(messages))
    if shuffled:
        random.Random(2).shuffle(numbers)  # noqa: S311 — no secret
    return [packed(*head, *map(entry_id, numbers[first : first + AT_ONCE])) for first in range(0, messages, AT_ONCE)]


# --- writing -------------------------------------------------------------------------------------------------------


def xadd(
    slug: str = "xadd",
    name: str = "",
    *,
    shape: Shape | None = None,
    pipeline: int = 1,
    clients: int = 50,
    maxlen: int | None = None,
    latency: bool = False,
) -> Workload:
    """Append messages with generated IDs."""
    words = (shape or Shape()).words()
    trimmed = (b"MAXLEN", b"~", b"%d" % maxlen) if maxlen is not None else ()

    def prepare(target: Target) -> None:
        target.client.delete(target.key("written"))

    def measure(target: Target, seconds: float) -> Sample:
        buffer = packed(b"XADD", target.key("written"), *trimmed, b"*", *words) * pipeline
        most = -1 if maxlen is not None else max(clients, MOST_BYTES // len(buffer))
        return drive(target, [buffer], pipeline=pipeline, clients=clients, seconds=seconds, limit=most)

    figures = (RATE, P99) if latency else (RATE,)
    return Workload(slug, name or f"XADD, pipeline {pipeline}", measure, prepare, figures)


def xtrim_whole(streams: Streams) -> Workload:
    """Trim a stream to nothing, in one command."""

    def measure(target: Target, _seconds: float) -> Sample:
        key = target.key("copied")
        began, served = time.perf_counter(), target.processor_seconds()
        target.execute("XTRIM", key, "MAXLEN", "0")
        took = time.perf_counter() - began
        return {"took": 1000 * took, "processor": 1e6 * (target.processor_seconds() - served)}

    name = f"XTRIM MAXLEN 0, {streams.messages:,} messages"
    return Workload("xtrim", name, measure, lambda target: void(streams.copied(target)), (TOOK,))


def xtrim_steps(streams: Streams) -> Workload:
    """Trim a stream exactly, ten messages at a time."""
    steps, step, pipeline = min(20_000, streams.messages // 10), 10, 16

    def measure(target: Target, seconds: float) -> Sample:
        key = target.key("copied")
        commands = [
            packed(b"XTRIM", key, b"MAXLEN", b"%d" % (streams.messages - step * number))
            for number in range(1, steps + 1)
        ]
        buffers = piped(commands, pipeline)
        return drive(target, buffers, pipeline=pipeline, clients=1, seconds=seconds, limit=len(buffers))

    name = "XTRIM MAXLEN exactly, 10 messages a command, pipeline 16"
    return Workload("xtrim-steps", name, measure, lambda target: void(streams.copied(target)))


def xdel(streams: Streams, *, shuffled: bool, clients: int = 10) -> Workload:
    """Delete a whole stream by IDs, a hundred a command."""

    def measure(target: Target, seconds: float) -> Sample:
        buffers = _buffers_of_ids(streams.messages, shuffled, (b"XDEL", target.key("copied")))
        return drive(target, buffers, pipeline=1, clients=clients, seconds=seconds, limit=len(buffers))

    order = "at random" if shuffled else "in order"
    slug = "xdel-random" if shuffled else "xdel"
    return Workload(slug, f"XDEL, 100 IDs {order}", measure, lambda target: void(streams.copied(target)))


def void(_: object) -> None:
    """Drop a value."""


# --- reading -------------------------------------------------------------------------------------------------------


def xrange(
    streams: Streams, count: int, *, reverse: bool = False, pipeline: int = 1, clients: int = 50, slug: str = ""
) -> Workload:
    """Read so many entries, from places all over the stream."""
    command = "XREVRANGE" if reverse else "XRANGE"
    end = b"-" if reverse else b"+"

    def measure(target: Target, seconds: float) -> Sample:
        key = streams.filled(target)
        behind = min(count, streams.messages) - 1
        commands = [
            packed(command.encode(), key, entry_id(number + behind * reverse), end, b"COUNT", b"%d" % count)
            for number in places(streams.messages, count)
        ]
        buffers = piped(commands, pipeline)
        return drive(target, buffers, pipeline=pipeline, clients=clients, seconds=seconds)

    name = f"{command} COUNT {count:,}" + (f", pipeline {pipeline}" if pipeline > 1 else "")
    slug = slug or f"{command.lower()}-{count}"
    return Workload(slug, name, measure, lambda target: void(streams.filled(target)))


def xread(streams: Streams, clients: int = 50) -> Workload:
    """Read a hundred entries behind an ID, without a group."""

    def measure(target: Target, seconds: float) -> Sample:
        key = streams.filled(target)
        buffers = [
            packed(b"XREAD", b"COUNT", b"100", b"STREAMS", key, entry_id(number))
            for number in places(streams.messages, AT_ONCE + 1)
        ]
        return drive(target, buffers, pipeline=1, clients=clients, seconds=seconds)

    return Workload("xread-100", "XREAD COUNT 100", measure, lambda target: void(streams.filled(target)))


def wake(readers: int) -> Workload:
    """Time from an XADD until each of so many readers that were blocked for it has its reply."""

    def measure(target: Target, seconds: float) -> Sample:
        key = target.key("woken")
        request = packed(b"XREAD", b"BLOCK", b"0", b"STREAMS", key, b"$")
        entry = packed(b"XADD", key, b"MAXLEN", b"~", b"100", b"*", b"field", b"value")
        already = _blocked(target)

        def work(load: Load) -> None:
            deadline, wakes = time.monotonic() + seconds, 0
            with target.connect() as writer:
                while wakes < 3 or time.monotonic() < deadline:
                    load.ask(request)
                    patience = time.monotonic() + BLOCKED_SECONDS
                    while _blocked(target) < already + readers:
                        if time.monotonic() > patience:
                            raise LoadFailed(f"{target.name} does not say that {readers} readers are blocked")
                        time.sleep(0.0005)
                    load.wake(writer.fileno(), entry)
                    if not writer.recv(1024).startswith(b"$"):
                        raise LoadFailed(f"{target.name} does not take an XADD")
                    wakes += 1

        _, sample = _loaded(target, readers, work)
        # Processor time is not told: most of it went into making readers wait, not into waking them.
        return {"p50": sample["p50"], "p99": sample["p99"]}

    name = f"XREAD, {readers} blocked reader{'s' if readers > 1 else ''}"
    return Workload(f"wake-{readers}", name, measure, figures=(P50, P99))


def _blocked(target: Target) -> int:
    return int(target.client.info("clients")["blocked_clients"])


# --- groups --------------------------------------------------------------------------------------------------------


def xreadgroup(streams: Streams, clients: int = 50) -> Workload:
    """Deliver a stream to one consumer, a hundred entries at a time; nothing is acknowledged."""

    def measure(target: Target, seconds: float) -> Sample:
        key = streams.filled(target)
        read = packed(b"XREADGROUP", b"GROUP", GROUP, b"c0", b"COUNT", b"100", b"STREAMS", key, b">")
        requests = max(1, streams.messages // AT_ONCE)
        return drive(target, [read], pipeline=1, clients=min(clients, requests), seconds=seconds, limit=requests)

    return Workload("xreadgroup-100", "XREADGROUP COUNT 100", measure, lambda target: void(streams.unread(target)))


def consume(streams: Streams, consumers: int, count: int = 10) -> Workload:
    """Let consumers read and acknowledge everything: XACK of what they have, and the next XREADGROUP behind it."""

    def measure(target: Target, seconds: float) -> Sample:
        key = streams.filled(target)
        reads = [
            packed(*(b"XREADGROUP", b"GROUP", GROUP, b"c%d" % number, b"COUNT", b"%d" % count, b"STREAMS", key, b">"))
            for number in range(consumers)
        ]
        load, sample = _loaded(target, consumers, lambda load: load.consume(reads, (b"XACK", key, GROUP), seconds))
        if "processor" in sample:
            sample["processor"] *= load.requests / (load.entries or 1)
        return sample | {"rate": load.entries / load.seconds}

    name = f"XREADGROUP COUNT {count} + XACK, {consumers} consumer{'s' if consumers > 1 else ''}"
    figures = (Figure("rate", "messages/s"),)
    return Workload(f"consume-{consumers}", name, measure, lambda target: void(streams.unread(target)), figures)


def xautoclaim(streams: Streams, clients: int = 10, *, just_ids: bool = False) -> Workload:
    """Let one consumer take over everything that is pending for the other, a hundred entries at a time."""
    option = (b"JUSTID",) if just_ids else ()

    def measure(target: Target, seconds: float) -> Sample:
        key = streams.pending(target)
        first = target.client.xpending_range(key, GROUP, "-", "+", 1)[0]
        taker = b"c1" if first["consumer"] == b"c0" else b"c0"
        words = [
            (key, GROUP, taker, b"0", entry_id(first), b"COUNT", b"100", *option)
            for first in range(0, streams.messages, AT_ONCE)
        ]
        buffers = [packed(b"XAUTOCLAIM", *each) for each in words]
        return drive(target, buffers, pipeline=1, clients=clients, seconds=seconds, limit=len(buffers))

    slug, name = ("xautoclaim-justid", " JUSTID") if just_ids else ("xautoclaim", "")
    return Workload(
        slug, f"XAUTOCLAIM COUNT 100{name}, {_people(streams.messages)} pending", measure,
        lambda target: void(streams.pending(target)),
    )  # fmt: skip


def _people(number: int) -> str:
    return "a million" if number == 1_000_000 else f"{number:,}"


def _on_pending(streams: Streams, slug: str, name: str, *words: bytes) -> Workload:
    """Make a workload of a command whose `key` is that of the stream where all is pending."""
    return request_workload(
        slug,
        name,
        lambda target: tuple(target.key(f"pending-{streams.messages}") if word == b"key" else word for word in words),
        pipeline=16 if slug in {"xpending", "xinfo", "xinfo-groups"} else 1,
        prepare=lambda target: void(streams.pending(target)),
    )


def looking(streams: Streams) -> list[Workload]:
    """Make the workloads that ask for the state of a stream and its groups."""
    pending = f"{_people(streams.messages)} pending"
    return [
        _on_pending(streams, "xpending", f"XPENDING, {pending}, pipeline 16", b"XPENDING", b"key", GROUP),
        _on_pending(
            streams,
            "xpending-list",
            f"XPENDING - + 100, {pending}",
            *(b"XPENDING", b"key", GROUP, b"-", b"+", b"100"),
        ),
        _on_pending(streams, "xinfo", "XINFO STREAM, pipeline 16", b"XINFO", b"STREAM", b"key"),
        _on_pending(streams, "xinfo-groups", "XINFO GROUPS, pipeline 16", b"XINFO", b"GROUPS", b"key"),
        _on_pending(
            streams, "xinfo-full", "XINFO STREAM FULL COUNT 10", b"XINFO", b"STREAM", b"key", b"FULL", b"COUNT", b"10"
        ),
        request_workload(
            "xlen",
            "XLEN, pipeline 16",
            lambda target: (b"XLEN", streams.filled(target)),
            pipeline=16,
            prepare=lambda target: void(streams.filled(target)),
        ),
    ]


# --- all of them ---------------------------------------------------------------------------------------------------


def catalogue(streams: Streams, *, clients: int = 50, pipeline: int = 1) -> list[Workload]:
    """Every workload once, for servers that hold such streams."""
    return [
        xadd(shape=streams.shape, clients=clients, pipeline=pipeline, latency=True),
        xadd("xadd-maxlen", "XADD MAXLEN ~ 1000", shape=streams.shape, clients=clients, pipeline=pipeline, maxlen=1000),
        *(
            xrange(streams, count, clients=clients, reverse=back)
            for back in (False, True)
            for count in (1, 100, 10_000)
        ),
        xread(streams, clients),
        *(wake(readers) for readers in (1, 10, 100)),
        xreadgroup(streams, clients),
        *(consume(streams, consumers) for consumers in (1, 4, 16)),
        xautoclaim(streams),
        xautoclaim(streams, just_ids=True),
        *looking(streams),
        xtrim_whole(streams),
        xtrim_steps(streams),
        xdel(streams, shuffled=False),
        xdel(streams, shuffled=True),
    ]


def chosen(workloads: list[Workload], wanted: list[str]) -> list[Workload]:
    """Choose workloads by their slugs, or by how these begin: `xrange` is xrange-1, xrange-100 and xrange-10000."""
    if not wanted:
        return workloads
    for name in wanted:
        if not any(_named(workload, name) for workload in workloads):
            known = ", ".join(workload.slug for workload in workloads)
            raise NoSuchWorkload(f"There is no workload {name!r}; there are {known}.")
    return [workload for workload in workloads if any(_named(workload, name) for name in wanted)]


def _named(workload: Workload, name: str) -> bool:
    return workload.slug == name.lower() or workload.slug.startswith(f"{name.lower()}-")


def refusal(error: redis.RedisError, target: Target, workload: Workload) -> LoadFailed:
    """Say in one sentence what a server did not do while a workload was prepared."""
    return LoadFailed(f"{target.name} cannot be measured with {workload.slug}: {error}")
