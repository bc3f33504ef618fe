"""The demo: devices send telemetry through a Headrace server, and a group of workers processes all of it, once.

Three workers share a consumer group. One of them is killed in the middle of its work; the others claim what it left
unacknowledged. At the end every message sent must have been processed: the script exits with 1 where a count is off.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from multiprocessing import Process, Queue
from socket import socket

import redis
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

STREAM, GROUP = "devmsg", "workers"
DEVICES, MESSAGES, WORKERS = 8, 120_000, 3
BATCH = 200
STALE_MS = 1500

console = Console()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(port: int, directory: str) -> tuple[subprocess.Popen[bytes], redis.Redis]:
    """Start a server with an empty directory; return it when it answers."""
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "serve", "--port", str(port), "--dir", directory],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            return server, client
        except redis.ConnectionError:
            time.sleep(0.05)
    server.kill()
    sys.exit("the server did not start")


def send(port: int, device: int, messages: int) -> None:
    """One device: telemetry in pipelines, each message with the moment when it was sent."""
    client = redis.Redis(port=port)
    dice = random.Random(device)
    for begin in range(0, messages, BATCH):
        with client.pipeline(transaction=False) as batch:
            for number in range(begin, min(begin + BATCH, messages)):
                reading = {"dev": device, "temp": dice.randint(15, 40), "n": number, "at": time.time_ns() // 1000}
                batch.xadd(STREAM, reading)
            batch.execute()


def work(port: int, name: str, results: "Queue[tuple[str, list[tuple[str, int]]]]") -> None:
    """One worker: claim what others left, read what is new, process, acknowledge."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client = redis.Redis(port=port, decode_responses=True, protocol=2)
    while True:
        entries = client.xautoclaim(STREAM, GROUP, name, STALE_MS, count=BATCH)[1]
        if not entries:
            reply = client.xreadgroup(GROUP, name, {STREAM: ">"}, count=BATCH, block=200)
            entries = reply[0][1] if reply else []
        if entries:
            time.sleep(0.002)  # the work itself
            now = time.time_ns() // 1000
            results.put((name, [(f"{fields['dev']}:{fields['n']}", now - int(fields["at"])) for _, fields in entries]))
            client.xack(STREAM, GROUP, *(id for id, _ in entries))


def main() -> int:
    """Run the demo; 0 where every count is right."""
    port = free_port()
    results: Queue[tuple[str, list[tuple[str, int]]]] = Queue()
    processes: list[Process] = []
    with tempfile.TemporaryDirectory() as directory:
        server, client = start_server(port, directory)
        try:
            client.xgroup_create(STREAM, GROUP, "$", mkstream=True)
            console.print(f"Headrace {client.info('server')['headrace_version']} serves on port {port}.")
            workers = [Process(target=work, args=(port, f"worker-{n}", results)) for n in range(1, WORKERS + 1)]
            senders = [Process(target=send, args=(port, n, MESSAGES // DEVICES)) for n in range(1, DEVICES + 1)]
            processes = workers + senders
            began = time.monotonic()
            for process in processes:
                process.start()
            seen, by_worker, latencies = follow(results, workers[1])
            took = time.monotonic() - began
            return report(client, seen, by_worker, latencies, took)
        finally:
            for process in processes:
                process.kill()
            server.terminate()
            server.wait()


def follow(
    results: "Queue[tuple[str, list[tuple[str, int]]]]", victim: Process
) -> tuple[Counter[str], Counter[str], list[int]]:
    """Count what the workers report until every message was processed; kill one of them on the way."""
    seen: Counter[str] = Counter()
    by_worker: Counter[str] = Counter()
    latencies: list[int] = []
    columns = (TextColumn("processed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("processed", total=MESSAGES)
        deadline = time.monotonic() + 120
        while len(seen) < MESSAGES and time.monotonic() < deadline:
            name, messages = results.get(timeout=60)
            seen.update(message for message, _ in messages)
            latencies += [latency for _, latency in messages]
            by_worker[name] += len(messages)
            progress.update(task, completed=len(seen))
            if victim.is_alive() and len(seen) > MESSAGES // 3:
                victim.kill()
                victim.join()
                progress.console.print("worker-2 was killed; what it left will be claimed by the others.")
    return seen, by_worker, latencies


def report(client: redis.Redis, seen: Counter[str], by_worker: Counter[str], latencies: list[int], took: float) -> int:
    """Show what happened; 1 where a message is missing."""
    sent = client.xlen(STREAM)
    pending = client.xpending(STREAM, GROUP)["pending"]
    latencies.sort()
    table = Table("", "", title="devmsg", show_header=False)
    table.add_row("sent", f"{sent:,}")
    table.add_row("processed", f"{len(seen):,}")
    table.add_row("processed again after the kill", f"{sum(seen.values()) - len(seen):,}")
    for name, count in sorted(by_worker.items()):
        table.add_row(f"  by {name}", f"{count:,}")
    table.add_row("still pending", f"{pending:,}")
    table.add_row("messages a second, end to end", f"{len(seen) / took:,.0f}")
    for share in (50, 99):
        table.add_row(f"latency, {share} % within", f"{latencies[len(latencies) * share // 100] / 1000:,.1f} ms")
    console.print(table)
    if sent == len(seen) == MESSAGES:
        console.print("Every message sent was processed.")
        return 0
    console.print(f"[red]{MESSAGES:,} messages were to be sent, {sent:,} are there, {len(seen):,} were processed.")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
