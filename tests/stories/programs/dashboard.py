"""A dashboard: asks the server several times a second how its streams are, and notes what cannot be.

    python dashboard.py

On SIGTERM it ends. The ledger `polls` has a line for each look, the ledger `doubts` what does not fit together.
"""

import os
import signal
import threading
import time

import redis

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
client = redis.Redis(port=int(os.environ["STORY_PORT"]), decode_responses=True)


def write(ledger: str, line: str) -> None:
    """Note something."""
    with open(ledger, "a") as file:
        file.write(f"{line}\n")


def look(before: dict[str, int]) -> dict[str, int]:
    """Look at everything; counters of the stream never go down, also when the server came back."""
    with client.pipeline(transaction=True) as pipe:
        pipe.xlen("jobs").xinfo_stream("jobs").xinfo_groups("jobs").xpending("jobs", "workers")
        pipe.xinfo_consumers("jobs", "workers").xpending_range("jobs", "workers", "-", "+", 1000)
        length, stream, groups, summary, consumers, pending = pipe.execute()
    info = client.info("everything")
    listed = client.client_list()
    seen = {
        "added": stream["entries-added"],
        "read": groups[0]["entries-read"] or 0,
        "last": int(stream["last-generated-id"].split("-")[0]),
    }
    doubts = [
        ("XLEN and XINFO STREAM differ", length != stream["length"]),
        (
            "pending counts differ",
            not summary["pending"] == groups[0]["pending"] == sum(c["pending"] for c in consumers),
        ),
        ("XPENDING lists others", len(pending) != min(summary["pending"], 1000)),
        ("pending and lag do not add up", (groups[0]["lag"] or 0) + seen["read"] != seen["added"]),
        ("a counter went down", any(seen[name] < value for name, value in before.items())),
        ("CLIENT LIST does not list us", not any(each["cmd"].startswith("client") for each in listed)),
        ("INFO counts other clients", info["connected_clients"] < 1 or info["blocked_clients"] < 0),
        ("an idle time is negative", any(each["time_since_delivered"] < 0 for each in pending)),
        ("a client's age is negative", any(int(each["age"]) < 0 or int(each["idle"]) < 0 for each in listed)),
        ("an uptime is negative", info["uptime_in_seconds"] < 0),
    ]
    for sentence, holds in doubts:
        if holds:
            write("doubts", f"{sentence}: {stream} {groups} {summary} {before} {listed}")
    write("polls", f"{length} {summary['pending']} {len(listed)}")
    return seen


seen: dict[str, int] = {}
while not stopping.is_set():
    try:
        seen = look(seen)
        time.sleep(0.05)
    except (redis.ConnectionError, redis.TimeoutError):
        time.sleep(0.05)
