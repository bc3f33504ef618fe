"""`python -m bench.structures`: what a command costs that meets many pending records, many groups, or many clients.

    claims      XCLAIM TIME of 1,000 entries into the middle of 200,000 pending ones
    references  XDELEX of entries of a stream with 2,000 groups, whether or not any of them holds the entries
    trimming    XTRIM MAXLEN 0 of a million entries
    blocked     XADD under `always` while 10,000 clients are blocked, and while none is

The figure is the processor time of the server, of all its threads, which a busy machine disturbs least. Where
redis-server has the command, it does the same in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from rich.console import Console
from rich.table import Table

from headrace.measuring.targets import REDIS, Target, packed, private_headrace, private_redis
from headrace.measuring.workloads import GROUP, Shape, Streams, entry_id, fill, xadd

ALWAYS = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "20000")
CLAIMED = 1000
DELETED = 500  # entries of a command
SETTLING = 0.2  # seconds


@contextmanager
def both(settings: tuple[str, ...] = ("--save", "", "--appendonly", "no")) -> Iterator[list[Target]]:
    """Run a Headrace and a redis-server."""
    with private_headrace(settings) as ours, private_redis(settings) as theirs:
        yield [ours, theirs]


Word = str | bytes | int


def command(*words: Word) -> bytes:
    """Write a command as it goes over the wire."""
    return packed(*(word if isinstance(word, bytes) else str(word).encode() for word in words))


def cost(target: Target, *commands: bytes) -> float:
    """Execute commands, and return the processor time that they took the server, in seconds."""
    before = target.processor_seconds()
    target.feed(commands)
    return target.processor_seconds() - before


# --- claims --------------------------------------------------------------------------------------------------------


def claims(target: Target, pending: int) -> tuple[float, float]:
    """Claim entries with a time that half of the others are older than; then each with a time of its own. In ms."""
    key = target.key("claimed")
    fill(target, key, 0, pending, Shape().words())
    target.client.xgroup_create(key, GROUP, "0")
    a_time = max(pending // 200, 1)
    now_ms = int(target.client.time()[0]) * 1000
    for first in range(0, pending, a_time):
        ids = [entry_id(number) for number in range(first, min(first + a_time, pending))]
        target.feed([command("XCLAIM", key, GROUP, "c0", 0, *ids, "TIME", now_ms - pending + first, "FORCE", "JUSTID")])
    some = [entry_id(number) for number in range(0, pending, max(pending // CLAIMED, 1))]
    at_once = cost(target, command("XCLAIM", key, GROUP, "c1", 0, *some, "TIME", now_ms - pending // 2, "JUSTID"))
    times = [now_ms - (number * 7919) % pending for number in range(len(some))]
    each = [
        command("XCLAIM", key, GROUP, "c2", 0, id, "TIME", at, "JUSTID") for id, at in zip(some, times, strict=True)
    ]
    return 1000 * at_once, 1000 * cost(target, *each)


# --- references ----------------------------------------------------------------------------------------------------


def references(target: Target, groups: int) -> Iterator[tuple[str, float]]:
    """Delete entries with regard to groups, some of which have others pending; µs an entry."""
    key = target.key("referred")
    entries = 20 * DELETED
    fill(target, key, 0, entries, Shape().words())
    for number in range(groups):
        group = f"g{number}"
        target.client.xgroup_create(key, group, "0")
        target.execute("XREADGROUP", "GROUP", group, "c", "COUNT", "100", "STREAMS", key, ">")
        target.execute("XGROUP", "SETID", key, group, "$")
    position = 1000

    def taken(count: int) -> list[bytes]:
        nonlocal position
        position += count
        return [entry_id(number) for number in range(position - count, position)]

    for policy in ("ACKED", "DELREF"):
        first = cost(target, command("XDELEX", key, policy, "IDS", DELETED, *taken(DELETED)))
        yield f"{policy}, nobody holds them, the first time", 1e6 * first / DELETED
        again = [cost(target, command("XDELEX", key, policy, "IDS", DELETED, *taken(DELETED))) for _ in range(3)]
        yield f"{policy}, nobody holds them", 1e6 * median(again) / DELETED
    yield (
        "ACKED, every group holds them",
        1e6 * cost(target, command("XDELEX", key, "ACKED", "IDS", 50, *held(0, 50))) / 50,
    )
    for number in range(groups - 3):
        target.execute("XACK", key, f"g{number}", *held(50, 100))
    few = cost(target, command("XDELEX", key, "DELREF", "IDS", 50, *held(50, 100)))
    yield "DELREF, three groups hold them", 1e6 * few / 50


def held(first: int, last: int) -> list[bytes]:
    """Entries that all groups were given."""
    return [entry_id(number) for number in range(first, last)]


# --- trimming ------------------------------------------------------------------------------------------------------


def trimming(target: Target, messages: int) -> tuple[float, float]:
    """Empty a stream: how long the command took by the server's own count, and all processor time. In ms."""
    key = Streams(messages).copied(target)
    time.sleep(SETTLING)
    before, took = target.processor_seconds(), trim_usec(target)
    target.client.xtrim(key, maxlen=0, approximate=False)
    time.sleep(SETTLING)  # nodes may be freed by a thread
    return (trim_usec(target) - took) / 1000, 1000 * (target.processor_seconds() - before)


def trim_usec(target: Target) -> int:
    """How long all XTRIMs have taken so far."""
    return int(target.client.info("commandstats").get("cmdstat_xtrim", {"usec": 0})["usec"])


# --- blocked clients -----------------------------------------------------------------------------------------------


@contextmanager
def blocked_clients(target: Target, count: int) -> Iterator[None]:
    """Let clients wait for a stream that nobody writes to."""
    with ExitStack() as stack:
        for _ in range(count):
            line = stack.enter_context(target.connect())
            line.sendall(packed(b"XREAD", b"BLOCK", b"0", b"STREAMS", target.key("quiet"), b"$"))
        while int(target.client.info("clients")["blocked_clients"]) < count:
            pass
        yield


def blocked(target: Target, clients: int, rounds: int, seconds: float) -> tuple[float, float]:
    """Append under `always`, µs of processor a request: with blocked clients, and without."""
    workload = xadd(pipeline=1)
    workload.prepare(target)
    found: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        with blocked_clients(target, clients):
            found[0].append(workload.measure(target, seconds)["processor"])
        while int(target.client.info("clients")["blocked_clients"]):
            pass
        found[1].append(workload.measure(target, seconds)["processor"])
    return median(found[0]), median(found[1])


# --- all of them ---------------------------------------------------------------------------------------------------


def measured(options: argparse.Namespace) -> Table:
    """Measure everything."""
    table = Table("what", "unit", "Headrace", REDIS)

    def row(what: str, unit: str, *figures: float) -> None:
        table.add_row(what, unit, *(f"{figure:,.2f}" for figure in figures))

    with both() as targets:
        found = [claims(target, options.pending) for target in targets]
        row(f"XCLAIM TIME of {CLAIMED:,} in one command, {options.pending:,} pending", "ms", *(at for at, _ in found))
        row(f"{CLAIMED:,} XCLAIM with different TIMEs", "ms", *(each for _, each in found))
        for what, figure in references(targets[0], options.groups):
            row(f"XDELEX, {options.groups:,} groups: {what}", "µs an entry", figure)
        trims = [[trimming(target, options.messages) for _ in range(options.rounds)] for target in targets]
        trimmed = f"XTRIM MAXLEN 0 of {options.messages:,}"
        row(f"{trimmed}, the command", "ms", *(median(took for took, _ in rounds) for rounds in trims))
        row(f"{trimmed}, all processor time", "ms", *(median(all_of_it for _, all_of_it in rounds) for rounds in trims))
    with both(ALWAYS) as targets:
        pairs = [blocked(target, options.blocked, options.rounds, options.seconds) for target in targets]
        row(f"XADD, always, {options.blocked:,} clients blocked", "µs a request", *(waiting for waiting, _ in pairs))
        row("XADD, always, no client blocked", "µs a request", *(alone for _, alone in pairs))
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.structures")
    parser.add_argument("--pending", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="that are trimmed")
    parser.add_argument("--blocked", type=int, default=10_000, help="clients")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    Console(highlight=False, width=120).print(measured(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
