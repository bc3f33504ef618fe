"""`python -m bench.delays`: how exact scheduled messages are, and what they cost.

    accuracy    10,000 messages a second are due, for some seconds; how long after its time each was appended, in ms
    memory      what the server holds more with a million scheduled messages of two fields than without, for each
    turns       while a hundred thousand late messages go out, the longest that a PING of another client takes

The time at which a message was appended is that of its entry's ID, which the server takes from the same clock that
decides what is due.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import quantiles

import redis
from rich.console import Console

from headrace.measuring.targets import private_headrace

EVERYSEC = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
IN_MEMORY = ("--save", "", "--appendonly", "no")
AT_ONCE = 1000  # commands in a pipeline


def schedule(client: redis.Redis, key: str, dues: list[int]) -> None:
    """Schedule a message for each time; its field says which."""
    for start in range(0, len(dues), AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for due in dues[start : start + AT_ONCE]:
            pipeline.execute_command("HEADRACE", "SCHEDULE", key, "AT", due, "due", due, "dev", 3)
        pipeline.execute()


def now_ms() -> int:
    """Return Unix time."""
    return int(time.time() * 1000)


def accuracy(a_second: int, seconds: int) -> list[int]:
    """Have so many due each second; how late each was, in ms."""
    with private_headrace(EVERYSEC) as target:
        client = target.client
        count = a_second * seconds
        begin = now_ms() + 2000 + count // 5  # until all are scheduled
        schedule(client, "q", [begin + 1000 * number // a_second for number in range(count)])
        if now_ms() >= begin:
            raise RuntimeError("the first messages were due before the last was scheduled: this machine is too busy")
        while int(client.xlen("q")) < count:
            time.sleep(0.2)
        return [int(id.split(b"-")[0]) - int(fields[b"due"]) for id, fields in client.xrange("q")]


def memory(count: int) -> float:
    """Return the bytes that a scheduled message takes."""
    with private_headrace(IN_MEMORY) as target:
        client = target.client
        before = int(client.info("memory")["used_memory_rss"])
        tomorrow = now_ms() + 86_400_000
        schedule(client, "q", [tomorrow + number for number in range(count)])
        return (int(client.info("memory")["used_memory_rss"]) - before) / count


def longest_ping(count: int) -> float:
    """Have so many go out at once; the longest PING meanwhile, in ms."""
    with private_headrace(EVERYSEC) as target:
        client = target.client
        begin = now_ms() + 1000 + count // 5
        schedule(client, "q", [begin] * count)
        longest = 0.0
        while int(client.xlen("q")) < count:
            sent = time.perf_counter()
            client.ping()
            longest = max(longest, time.perf_counter() - sent)
        return longest * 1000


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.delays")
    parser.add_argument("--rate", type=int, default=10_000, help="messages that are due a second")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages for the figure of memory")
    options = parser.parse_args()
    console = Console(highlight=False)
    late = accuracy(options.rate, options.seconds)
    cuts = quantiles(late, n=100)
    console.print(
        f"{options.rate:,} due a second: p50 {cuts[49]:.0f} ms late, p99 {cuts[98]:.0f} ms, most {max(late)} ms, "
        f"earliest {min(late)} ms"
    )
    console.print(f"a scheduled message of two fields: {memory(options.count):.0f} bytes")
    console.print(f"100,000 late messages go out: longest PING {longest_ping(100_000):.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
