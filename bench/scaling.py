"""`python -m bench.scaling`: one pipeline over servers and executors of this machine, and what a message costs each.

    cluster   a standalone Spark of three workers of one core and 1 GB each, three Headrace servers, 48 partition
              streams: the same messages are read, grouped and counted with 1 to 3 executors over 1 to 3 servers
    costs     what a message costs a server, its replica and an executor, in processor time and bytes
    table     what rates take by bench.scaling_model with these costs

What has two cores shows no speed-up beyond two busy processes. It shows whether a message costs more processor time
when the work is divided: that is the column to look at, and what the model assumes it does not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.bystander import processes_below
from bench.scaling_model import Costs, plan
from bench.standalone import LOOPBACK, QUICK_JAVA, standalone_cluster
from headrace.measuring.targets import HEADRACE, Target, headrace_command, packed, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SERVERS = 3
STREAMS = 48
MESSAGES = 2_400_000
SETTINGS = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-min-size", "10gb")
SCHEMA = "device string, temperature double"
RATES = (100_000, 1_000_000, 10_000_000, 100_000_000)


def await_that(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 120
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("what was to come did not come within two minutes")
        time.sleep(0.05)


@contextmanager
def spark_on(master: str, cores: int, directory: Path) -> Iterator[SparkSession]:
    """Start a session with so many executors of one core."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (only what measures a Spark has one)

    from headrace.spark.java import prepare_java  # noqa: PLC0415

    prepare_java()
    os.environ |= LOOPBACK | {"PYSPARK_PYTHON": sys.executable}
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": str(cores),
        "spark.sql.shuffle.partitions": "3",
        "spark.local.dir": str(directory / "local"),
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def url_of(servers: list[Target]) -> str:
    """Return the servers as the option `url` takes them."""
    return ",".join(
        f"redis://127.0.0.1:{server.client.connection_pool.connection_kwargs['port']}" for server in servers
    )


def fill(servers: list[Target], prefix: str, messages: int) -> None:
    """Spread partition streams over servers, each with the same number of messages."""
    for stream in range(STREAMS):
        key = f"{prefix}:{stream}".encode()
        servers[stream % len(servers)].feed(
            packed(b"XADD", key, b"*", b"device", b"device-%d" % (n % 1000), b"temperature", b"%d.5" % (15 + n % 20))
            for n in range(messages // STREAMS)
        )


def entries_of(spark: SparkSession, servers: list[Target], prefix: str, tasks: int) -> DataFrame:
    """Read partition streams of some servers as one frame."""
    options = {"url": url_of(servers), "keys": f"{prefix}:*", "minPartitions": str(tasks)}
    return spark.read.format("headrace").options(**options).schema(SCHEMA).load()


def executors_seconds(apart: set[int]) -> float:
    """Return the processor time of all processes below this one but the servers: Spark's and its Pythons'."""
    ticks = 0
    for pid in set(processes_below(os.getpid())) - apart:
        try:
            words = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(spent) for spent in words[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ran:
    """A pipeline that ran."""

    executors: int
    servers: int
    rate: float  # messages a second
    executor_us: float  # of Spark and its Python, for a message
    server_us: float  # of all servers


def run_pipeline(spark: SparkSession, servers: list[Target], prefix: str, executors: int, messages: int) -> Ran:
    """Read, group and count, three times after one that warms up; return the median by rate."""
    pids = {server.pid or 0 for server in servers}
    found: list[Ran] = []
    for _ in range(4):
        busy = sum(server.processor_seconds() for server in servers)
        spent, started = executors_seconds(pids), time.perf_counter()
        frame = entries_of(spark, servers, prefix, max(3, executors))
        counted = sum(row["count"] for row in frame.groupBy("device").count().collect())
        took = time.perf_counter() - started
        if counted != messages:
            raise AssertionError(f"{counted} of {messages} messages were read")
        executor_us = (executors_seconds(pids) - spent) / messages * 1e6
        server_us = (sum(server.processor_seconds() for server in servers) - busy) / messages * 1e6
        found.append(Ran(executors, len(servers), messages / took, executor_us, server_us))
    return sorted(found[1:], key=lambda ran: ran.rate)[1]


def run_cluster(console: Console, directory: Path, messages: int) -> list[Ran]:
    """Run the same pipeline over 1 to 3 servers with 1 to 3 executors."""
    ran: list[Ran] = []
    with ExitStack() as stack:
        servers = []
        for number in range(SERVERS):
            place = directory / f"server{number}"
            place.mkdir()
            servers.append(stack.enter_context(running(HEADRACE, headrace_command(), SETTINGS, str(place))))
        for count in range(1, SERVERS + 1):
            fill(servers[:count], f"over{count}", messages)
        (directory / "daemons").mkdir()
        master = stack.enter_context(standalone_cluster(directory / "daemons", workers=3))
        for executors in range(1, 4):
            with spark_on(master, executors, directory) as spark:
                for count in range(1, SERVERS + 1):
                    ran.append(run_pipeline(spark, servers[:count], f"over{count}", executors, messages))
                    console.print(ran[-1])
    return ran


def measure_costs(directory: Path, messages: int) -> Costs:
    """Measure what a message costs, one part after the other."""
    server_place, replica_place = directory / "master", directory / "replica"
    server_place.mkdir()
    replica_place.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(running(HEADRACE, headrace_command(), SETTINGS, str(server_place)))
        before, memory = server.processor_seconds(), server.used_memory()
        received = server.client.info("stats")["total_net_input_bytes"]
        journal = _journal_bytes(server_place)
        fill([server], "alone", messages)
        append_us = (server.processor_seconds() - before) / messages * 1e6
        append_bytes = (server.client.info("stats")["total_net_input_bytes"] - received) / messages
        memory_bytes = (server.used_memory() - memory) / messages
        await_that(lambda: (_journal_bytes(server_place) - journal) / messages > 1)
        time.sleep(1.5)  # until the journal is on disk
        effect_bytes = (_journal_bytes(server_place) - journal) / messages

        port = server.client.connection_pool.connection_kwargs["port"]
        following = ("--replicaof", f"127.0.0.1 {port}")
        replica = stack.enter_context(
            running(HEADRACE, headrace_command(), (*SETTINGS, *following), str(replica_place))
        )
        _await_replica(server, replica)
        before, repeated = server.processor_seconds(), replica.processor_seconds()
        fill([server], "followed", messages)
        _await_replica(server, replica)
        feed_us = max(0.0, (server.processor_seconds() - before) / messages * 1e6 - append_us)
        repeat_us = (replica.processor_seconds() - repeated) / messages * 1e6
        replica.client.execute_command("REPLICAOF", "NO", "ONE")

        with spark_on("local[1]", 1, directory) as spark:
            pids = {server.pid or 0, replica.pid or 0}
            read = [
                _spent(server, pids, lambda: _to_nowhere(entries_of(spark, [server], "alone", 1))) for _ in range(3)
            ]
            lake = str(directory / "lake")
            archived = _spent(server, pids, lambda: _archive(spark, server, lake))
    parquet = sum(file.stat().st_size for file in Path(lake).rglob("*.parquet"))
    executor, serving, sent = min(read[1:])
    return Costs(
        append_us=append_us,
        feed_us=feed_us,
        repeat_us=repeat_us,
        serve_us=serving / messages * 1e6,
        read_us=executor / messages * 1e6,
        archive_us=archived[0] / messages * 1e6,
        append_bytes=append_bytes,
        effect_bytes=effect_bytes,
        serve_bytes=sent / messages,
        memory_bytes=memory_bytes,
        archive_bytes=parquet / messages,
    )


def _spent(server: Target, pids: set[int], work: Callable[[], object]) -> tuple[float, float, float]:
    """Return the seconds of Spark's processes, those of the server, and the bytes that it sent."""
    serving, sent = server.processor_seconds(), server.client.info("stats")["total_net_output_bytes"]
    spent = executors_seconds(pids)
    work()
    sent = server.client.info("stats")["total_net_output_bytes"] - sent
    return executors_seconds(pids) - spent, server.processor_seconds() - serving, float(sent)


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _archive(spark: SparkSession, server: Target, lake: str) -> None:
    from headrace.pipelines.archive import archive_streams  # noqa: PLC0415  (it needs pyspark)

    archive_streams(spark, "alone:*", lake, url=url_of([server]))


def _journal_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*.incr.aof"))


def _await_replica(server: Target, replica: Target) -> None:
    def has_all() -> bool:
        told = replica.client.info("replication")
        reached = server.client.info("replication")["master_repl_offset"]
        return told.get("master_link_status") == "up" and int(told["master_repl_offset"]) >= int(reached)

    await_that(has_all)


# --- telling ---------------------------------------------------------------------------------------------------


def table_of_runs(ran: list[Ran]) -> Table:
    """Show throughput and processor time by executors and servers."""
    table = Table("executors", "servers", "messages/s", "executors, µs a message", "servers, µs a message")
    for each in ran:
        figures = f"{each.rate:,.0f}", f"{each.executor_us:.2f}", f"{each.server_us:.3f}"
        table.add_row(str(each.executors), str(each.servers), *figures)
    return table


def table_of_plans(costs: Costs, replicas: int = 1, readers: int = 2) -> Table:
    """Show what rates take by the model."""
    table = Table(
        "messages/s", "servers", "replicas", "cores", "streams", "MB/s out", "MB/s disk", "hot", "TB/day", "first"
    )
    for rate in RATES:
        found = plan(rate, costs, replicas=replicas, readers=readers)
        table.add_row(
            *(f"{rate:,}", f"{found.servers:,}", f"{found.replicas:,}", f"{found.cores:,}", f"{found.partitions:,}"),
            *(f"{found.network_bytes / 1e6:,.0f}", f"{found.disk_bytes / 1e6:,.0f}"),
            *(f"{found.hot_seconds / 3600:.1f} h", f"{found.archive_bytes / 1e12:,.2f}", found.first_limit),
        )
    return table


def main() -> int:
    """Measure, and tell."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], "cluster", "costs"], help="both by default")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    options = parser.parse_args()
    console = Console(highlight=False, width=140)
    messages = options.messages // STREAMS * STREAMS
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        if not options.parts or "costs" in options.parts:
            costs = measure_costs(Path(place), messages)
            for field in fields(costs):
                console.print(f"{field.name} = {getattr(costs, field.name):.3f}")
            console.print(table_of_plans(costs))
        if not options.parts or "cluster" in options.parts:
            console.print(table_of_runs(run_cluster(console, Path(place), messages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
