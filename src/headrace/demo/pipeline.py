"""The Spark part, `python -m headrace.demo.pipeline PORT DIRECTORY`: two streaming queries on the stream of messages.

    devmsg ─┬─► archive    every message, appended to Parquet: exactly once, by Spark's checkpoint and file log
            └─► windows    per device and five seconds: how many, how warm; the whole table anew with every batch

It reports to the demo, one line of JSON for each event:

    {"event": "running"}                                           both queries have begun
    {"event": "batch", "query": "archive", "rows": 4096,           a batch is committed
     "until": "1794743447595-12", "at": 1794743448}
    {"event": "restarted", "query": "windows", "why": "…"}         one failed, and goes on from its checkpoint
    {"event": "read back", "rows": …, "distinct": …, …}            after "finish" on its standard input: the last words
"""

import json
import os
import sys
import threading
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from headrace.demo.plan import ARCHIVE_GROUP, STREAM, WARM_UP, WINDOW_SECONDS
from headrace.spark.java import prepare_java

_SCHEMA: Final = "_id string, _timestamp timestamp, dev int, temp int, n long, at long"
_JAVA_OPTIONS: Final = (
    "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for a minute compiles quickly
)
_TRIGGER: Final = "1 second"
_LOOK_S: Final = 0.2
_RESTARTS: Final = 5


class Finish:
    """An event that the demo sets with a word on standard input; when standard input ends, so does this process."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in FileIO(sys.stdin.fileno(), closefd=False):  # a buffer's lock would be held when the process ends
            if line.strip() == b"finish":
                self._asked.set()
        os._exit(1)

    def wait(self, seconds: float) -> bool:
        """Wait for the word, for a while; whether it has come."""
        return self._asked.wait(seconds)


class Pipeline:
    """One query, which is begun anew from its checkpoint when it fails."""

    def __init__(self, name: str, frame: DataFrame, directory: Path) -> None:
        self.name = name
        self._frame = frame
        self._directory = directory
        self._told = -1
        self._restarts = 0
        self.query = self._start()

    def _start(self) -> StreamingQuery:
        """Start the query."""
        writer = self._frame.writeStream.queryName(self.name).trigger(processingTime=_TRIGGER)
        writer = writer.option("checkpointLocation", str(self._directory / "spark" / "checkpoints" / self.name))
        if self.name == "archive":
            return writer.format("parquet").outputMode("append").start(str(self._directory / "archive"))
        return writer.outputMode("complete").foreachBatch(self._replace).start()

    def _replace(self, table: DataFrame, _batch: int) -> None:
        """Write the table of windows anew: a batch that is repeated writes the same."""
        table.coalesce(1).write.mode("overwrite").parquet(str(self._directory / "windows"))

    def report_progress(self) -> None:
        """Report the batches that were committed since the last call."""
        for progress in self.query.recentProgress:
            if progress.numInputRows and progress.batchId > self._told:
                self._told = progress.batchId
                began = datetime.fromisoformat(progress.timestamp).timestamp()
                [source] = progress.sources
                until = json.loads(source.endOffset)["0"][STREAM]["id"]
                at = began + progress.durationMs["triggerExecution"] / 1000
                report("batch", query=self.name, rows=progress.numInputRows, until=until, at=at)

    def revive(self) -> None:
        """Start the query again where it has failed."""
        failure = self.query.exception()
        if failure is None:
            return
        self._restarts += 1
        if self._restarts > _RESTARTS:
            raise failure
        report("restarted", query=self.name, why=str(failure).strip().splitlines()[-1])
        self.query = self._start()


def report(event: str, **details: Any) -> None:
    """Report an event to the demo."""
    print(json.dumps({"event": event, **details}), flush=True)  # noqa: T201


def start_spark(directory: Path) -> SparkSession:
    """Start Spark on this machine's cores, with nothing left outside the directory."""
    prepare_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    scratch = directory / "spark" / "tmp"
    scratch.mkdir(parents=True)
    os.environ["TMPDIR"] = str(scratch)
    session = (
        SparkSession.builder.master("local[2,3]")  # a task that fails is run again, twice
        .appName("headrace demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={scratch} {_JAVA_OPTIONS}")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def warm_up(spark: SparkSession, port: int) -> None:
    """Read a message once, so that the first batch does not have to wait for Python processes to start."""
    spark.read.format("headrace").options(url=f"redis://127.0.0.1:{port}", keys=WARM_UP).load().collect()


def read_back(spark: SparkSession, directory: Path) -> None:
    """Report what the files hold, read as any program would read them."""
    archive = spark.read.parquet(str(directory / "archive"))
    counted = archive.agg(f.count("*").alias("rows"), f.countDistinct("dev", "n").alias("distinct")).first()
    windows = spark.read.parquet(str(directory / "windows")).orderBy("dev", "begin")
    table = [row.asDict() for row in windows.select("dev", "begin", "messages", "mean").collect()]
    assert counted is not None  # noqa: S101  (an aggregate has one row)
    report("read back", rows=counted["rows"], distinct=counted["distinct"], windows=table)


def main(port: int, directory: Path) -> None:
    """Run the queries until the demo asks to finish, then read back what they wrote."""
    finish = Finish()
    spark = start_spark(directory)
    messages = (
        spark.readStream.format("headrace")
        .options(url=f"redis://127.0.0.1:{port}", keys=STREAM, startingId="earliest")
        .schema(_SCHEMA)
    )
    warm_up(spark, port)
    window = f.window("_timestamp", f"{WINDOW_SECONDS} seconds")
    per_window = (
        messages.load()
        .groupBy("dev", window.alias("window"))
        .agg(f.count("*").alias("messages"), f.avg("temp").alias("mean"), f.max("temp").alias("highest"))
        .selectExpr("dev", "unix_seconds(window.start) AS begin", "messages", "mean", "highest")
    )
    pipelines = [
        Pipeline("archive", messages.option("group", ARCHIVE_GROUP).load(), directory),
        Pipeline("windows", per_window, directory),
    ]
    for pipeline in pipelines:
        pipeline.query.processAllAvailable()
    report("running")
    while not finish.wait(_LOOK_S):
        for pipeline in pipelines:
            pipeline.revive()
            pipeline.report_progress()
    for pipeline in pipelines:
        pipeline.query.processAllAvailable()
        pipeline.query.stop()
        pipeline.report_progress()
    read_back(spark, directory)
    spark.stop()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    except PySparkException as error:
        sys.exit(str(error))
