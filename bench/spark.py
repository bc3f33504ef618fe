"""Spark and Headrace on one machine, in figures: `python -m bench spark`.

    a round:  Parquet ─► noop    Headrace ─► noop    redis-py's XRANGE in mapInArrow ─► noop    Parquet ─► Headrace
    then:     a bystander's XADD, again and again, while nothing happens, while Spark reads Parquet (the cores are
              busy, the server is not), and while Spark reads the server; with all cores for all, and with one for the
              server (see bench.bystander)
    then:     a trickle: one entry in, how long until a streaming query has written it to another stream

Messages are (ms, seq, device, temperature): an ID and two fields. All four ways move them in the same number of tasks,
redis-py a fifth of them. Rates are by the clock, medians of the rounds, and mean little on a busy machine; the ratios
of one run mean more, and so does the processor time of a message, which is that of Spark, its Python processes and the
server together. A goal that is missed is marked, not an error.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from bench.bystander import apart, bystand, processes_below
from bench.harness import Row, median
from headrace.measuring.targets import private_headrace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = 5_000_000
"""Enough that what Spark spends on any job, about a second, is not most of the time."""
FEW = 5
"""redis-py gets the fifth part, or a run would be mostly its; its rate is by what it got."""
ROUNDS = 3
TASKS = 2
AT_ONCE = 10_000
TRICKLES = 30
SCHEMA = "_ms long, _seq long, device string, temperature string"

READ = "read: Headrace"
READ_XRANGE = "read: redis-py XRANGE in mapInArrow"
READ_PARQUET = "read: Parquet"
WRITE = "write: Headrace"


# --- what is measured ------------------------------------------------------------------------------------------


def start_spark(directory: Path) -> SparkSession:
    """Start a session on two cores."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (only the process that measures has one)

    from headrace.spark.java import prepare_java  # noqa: PLC0415

    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    session = (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", str(TASKS))
        .config("spark.sql.files.maxPartitionBytes", "1g")
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


class Ways:
    """The ways in and out, over the same messages."""

    def __init__(self, spark: SparkSession, server: redis.Redis, directory: Path, messages: int) -> None:
        self._spark = spark
        self._server = server
        self._messages = messages
        self._parquet = str(directory / "messages")
        self._filled = 0
        self._few: list[list[Any]] = []
        self.few = 0
        self.port = int(server.connection_pool.connection_kwargs["port"])
        self.url = f"redis://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write the messages to Parquet, one file a task, and to the stream that is read."""
        rows = self._spark.range(0, self._messages, numPartitions=TASKS)
        device, temperature = "concat('device-', id % 1000)", "cast(15 + id % 200 / 10 AS string)"
        columns = rows.selectExpr("id AS _ms", "id % 7 AS _seq", f"{device} AS device", f"{temperature} AS temperature")
        columns.write.mode("overwrite").parquet(self._parquet)
        self.write("messages")
        last = self._server.execute_command("HEADRACE", "SPLITS", "messages", "-", "+", FEW)[0][1].decode()
        self._few = self._server.execute_command("HEADRACE", "SPLITS", "messages", "-", last, TASKS)
        self.few = sum(entries for _, _, entries, _ in self._few)

    def parquet(self) -> DataFrame:
        """Read as Spark reads fastest."""
        return self._spark.read.parquet(self._parquet)

    def headrace(self) -> DataFrame:
        """Read with the connector."""
        options = {"url": self.url, "keys": "messages", "minPartitions": str(TASKS)}
        return self._spark.read.format("headrace").options(**options).schema(SCHEMA).load()

    def xrange(self) -> DataFrame:
        """Read as one would without a connector: ID ranges in a frame, redis-py and pyarrow in each task."""
        ranges = [(self.url, first.decode(), last.decode()) for first, last, _, _ in self._few]
        apart = self._spark.sparkContext.parallelize(ranges, TASKS)
        planned = self._spark.createDataFrame(apart, "url string, first string, last string")
        return planned.mapInArrow(read_ranges, SCHEMA)

    def write(self, key: str | None = None) -> None:
        """Write with the connector, to a stream that is deleted afterwards where it was given no name."""
        self._filled += 1
        columns = self.parquet().select("device", "temperature")
        sink = columns.write.format("headrace").mode("append")
        sink.options(url=self.url, key=key or f"written:{self._filled}").save()
        if key is None:
            self._server.delete(f"written:{self._filled}")


def read_ranges(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read ranges of IDs with redis-py, a chunk at a time."""
    import pyarrow as pa  # noqa: PLC0415  (in a task of Spark's)

    for batch in batches:
        for row in batch.to_pylist():
            with redis.Redis.from_url(row["url"]) as client:
                start = row["first"]
                while entries := client.xrange("messages", start, row["last"], count=AT_ONCE):
                    ids = [id.split(b"-") for id, _ in entries]
                    yield pa.RecordBatch.from_arrays(
                        [
                            pa.array([int(ms) for ms, _ in ids], pa.int64()),
                            pa.array([int(seq) for _, seq in ids], pa.int64()),
                            pa.array([fields.get(b"device") for _, fields in entries], pa.binary()).cast(pa.string()),
                            pa.array([fields.get(b"temperature") for _, fields in entries], pa.binary()).cast(
                                pa.string()
                            ),
                        ],
                        names=["_ms", "_seq", "device", "temperature"],
                    )
                    start = f"({entries[-1][0].decode()}"


def to_nowhere(frame: DataFrame) -> None:
    """Compute every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def processor_seconds() -> float:
    """Return the processor time of all processes below this one, ended children included: Spark's and the server's."""
    ticks = 0
    for pid in processes_below(os.getpid()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            ticks += sum(int(spent) for spent in words[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Speed:
    """How fast messages went one way."""

    rate: float  # messages a second, by the clock
    micros: float  # of processor, for one message


def speeds(ways: Ways, messages: int, rounds: int) -> dict[str, Speed]:
    """Return how fast each way is; the first round warms up and does not count."""
    works: dict[str, Callable[[], object]] = {
        READ_PARQUET: lambda: to_nowhere(ways.parquet()),
        READ: lambda: to_nowhere(ways.headrace()),
        READ_XRANGE: lambda: to_nowhere(ways.xrange()),
        WRITE: ways.write,
    }
    rates: dict[str, list[float]] = {name: [] for name in works}
    micros: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            count = ways.few if name == READ_XRANGE else messages
            started, spent = time.perf_counter(), processor_seconds()
            work()
            rates[name].append(count / (time.perf_counter() - started))
            micros[name].append((processor_seconds() - spent) / count * 1e6)
    return {name: Speed(median(rates[name][1:]), median(micros[name][1:])) for name in works}


# --- bystander and trickle -------------------------------------------------------------------------------------


def waits(ways: Ways, core: int | None = None) -> dict[str, list[float]]:
    """Return what a bystander waited in three states of the machine."""
    return {
        state: bystand(ways.port, meanwhile, core)
        for state, meanwhile in (
            ("nothing happens", None),
            ("Spark reads Parquet", lambda: to_nowhere(ways.parquet())),
            ("Spark reads the server", lambda: to_nowhere(ways.headrace())),
        )
    }


def trickle(spark: SparkSession, server: redis.Redis, url: str, directory: Path) -> list[float]:
    """Return the seconds from an entry's XADD until a query of stream to stream has committed it."""
    server.xadd("trickle", {"n": 0})
    frame = spark.readStream.format("headrace").options(url=url, keys="trickle", startingId="earliest").schema("n int")
    query = (
        frame.load()
        .writeStream.format("headrace")
        .options(url=url, key="trickled", checkpointLocation=str(directory / "trickle"))
        .start()
    )
    took, seen = [], "0"
    try:
        for number in range(TRICKLES + 5):
            start = time.perf_counter()
            server.xadd("trickle", {"n": number})
            while not any(int(fields[b"n"]) == number for _, fields in _arrived(server, seen)):
                pass
            took.append(time.perf_counter() - start)
            seen = server.xrevrange("trickled", count=1)[0][0].decode()
            time.sleep(0.3)
    finally:
        query.stop()
    return sorted(took[5:])


def _arrived(server: redis.Redis, after: str) -> list[Any]:
    found = server.xread({"trickled": after}, block=60_000)
    if not found:
        raise RuntimeError("the trickle has dried up: nothing arrived within a minute")
    return list(found[0][1])


# --- telling ---------------------------------------------------------------------------------------------------


def _row(what: str, figure: float, unit: str, against: tuple[str, float], goal: tuple[str, bool] | None = None) -> Row:
    other, its_figure = against
    told, met = goal or ("", None)
    return {
        "what": what,
        "figure": figure,
        "unit": unit,
        "against": other,
        "ratio": figure / its_figure,
        "goal": told,
        "met": met,
    }


def measure(messages: int = MESSAGES, rounds: int = ROUNDS) -> list[Row]:
    """Measure everything with one Spark and one server, both private; a row for each figure."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as place,
        private_headrace() as reference,
    ):
        directory, server = Path(place), reference.client
        spark = start_spark(directory)
        try:
            ways = Ways(spark, server, directory, messages)
            ways.prepare()
            found = speeds(ways, messages, rounds)
            together = waits(ways)
            with apart(reference.pid or 0) as core:
                alone = waits(ways, core)
            trickled = trickle(spark, server, ways.url, directory)
        finally:
            spark.stop()
    return [
        *_rate_rows(found),
        *_wait_rows("bystander", together),
        *_wait_rows("bystander, the server on a core of its own", alone),
        *_trickle_rows(trickled),
    ]


def _rate_rows(found: dict[str, Speed]) -> list[Row]:
    parquet, xrange = ((name, found[name].rate) for name in (READ_PARQUET, READ_XRANGE))
    read, written, unit = found[READ].rate, found[WRITE].rate, "messages/s"
    rows = [
        _row(READ_PARQUET, parquet[1], unit, parquet),
        _row(READ_XRANGE, xrange[1], unit, parquet),
        _row(READ, read, unit, parquet, ("≥ 1,200,000/s", read >= 1_200_000)),
        _row(READ, read, unit, xrange, ("≥ 4×", read >= 4 * xrange[1])),
        _row(WRITE, written, unit, parquet, ("≥ 500,000/s", written >= 500_000)),
    ]
    few = found[READ_XRANGE].micros
    rows += [_row(f"{name}, processor", speed.micros, "µs", (READ_XRANGE, few)) for name, speed in found.items()]
    return rows


def _wait_rows(who: str, found: dict[str, list[float]]) -> list[Row]:
    rows = []
    for part, place in (("median", 0.5), ("p99", 0.99)):
        idle, parquet, server = ((state, took[int(place * len(took))] * 1e6) for state, took in found.items())
        rows += [
            _row(f"{who}, {part}: {idle[0]}", idle[1], "µs", idle),
            _row(f"{who}, {part}: {parquet[0]}", parquet[1], "µs", idle),
            _row(f"{who}, {part}: {server[0]}", server[1], "µs", idle, ("≤ 2×", server[1] <= 2 * idle[1])),
            _row(f"{who}, {part}: {server[0]}", server[1], "µs", parquet),
        ]
    return rows


def _trickle_rows(took: list[float]) -> list[Row]:
    middle, late = median(took) * 1000, took[int(0.95 * len(took))] * 1000
    wanted = ("200 ms", 200.0)
    return [
        _row("trickle, stream to stream: median", middle, "ms", wanted, ("about 200 ms", middle <= 250)),
        _row("trickle, stream to stream: p95", late, "ms", wanted),
    ]
