"""The order of things: start, send, kill, kill, wait, count.

    server up ─► Spark up ─► devices and workers begin ─► at 30 %: kill -9 a worker that has messages in hand
                                                       ─► at 60 %: kill -9 the server while it owes answers; start it
              ─► everything sent and processed ─► Spark finishes and reads back ─► count ─► tables

Whatever ends it (the last line, an error, Ctrl-C, SIGTERM), the processes that it started are ended.
"""

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from redis import Redis

import headrace
from headrace.core.errors import HeadraceError
from headrace.demo import plan as names
from headrace.demo.children import end_session, start_child
from headrace.demo.kill_moment import stop_with_answers_owed
from headrace.demo.lag import LagRecord, Sample
from headrace.demo.lag_picture import write_picture
from headrace.demo.patience import GONE, connect
from headrace.demo.plan import GROUP, PROCESSED, STREAM, WARM_UP, WORKERS, Plan
from headrace.demo.show import Show
from headrace.demo.tally import Batch, Tally, count_everything

_SAMPLE_S: Final = 0.25
_STALLED_S: Final = 60.0  # no message arrives anywhere for so long: what is missing now will not come
_SPARK_S: Final = 300.0  # on a machine that has other work, too
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, and a terminal that is closed


class DemoFailed(HeadraceError):
    """The demo could not come to its end."""


class Demo:
    """One run."""

    def __init__(self, plan: Plan, show: Show, *, without_spark: str | None) -> None:
        """`without_spark` says why there is no Spark part."""
        self._plan = plan
        self._show = show
        self._without_spark = without_spark
        self._port = _free_port()
        self._client: Redis = connect(self._port)
        self._record = LagRecord()
        self._children: list[subprocess.Popen[str]] = []
        self._server: subprocess.Popen[str] | None = None
        self._spark: subprocess.Popen[str] | None = None
        self._told: queue.Queue[dict[str, Any]] = queue.Queue()
        self._batches: list[Batch] = []
        self._archived = 0
        self._sent = {"acknowledged": 0, "repeated": 0}
        self._read_back: dict[str, Any] | None = None

    def run(self) -> Tally:
        """Run from beginning to end; the processes are gone when it returns."""
        before = {number: signal.signal(number, _interrupt) for number in _ENDING}
        try:
            return self._run()
        finally:
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)  # this part is not interrupted
            self._show.end()
            self._client.close()
            for child in reversed(self._children):
                end_session(child)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> Tally:
        plan, show = self._plan, self._show
        self._start_server()
        show.say(f"Headrace {headrace.__version__} serves an empty directory on port {self._port}.")
        self._start_console()
        self._client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        self._client.xcfgset(STREAM, idmp_duration=300, idmp_maxsize=1000)
        self._client.xadd(WARM_UP, {"dev": 0})
        self._start_spark()
        devices, workers = self._start_clients()
        began = time.monotonic()
        show.begin(plan.messages, spark=self._spark is not None)
        self._follow_until(self._worker_may_die, began, devices)
        self._kill_worker(workers[names.VICTIM - 1], began)
        self._follow_until(self._server_may_die, began, devices)
        self._kill_server(began, devices)
        self._follow_until(self._everything_done, began, devices)
        took = self._record.samples[-1].seconds
        show.end()
        sent = self._hear_from_devices(devices)
        self._finish_spark()
        with show.waiting("Counting every message"):
            tally = count_everything(self._client, plan, sent, self._batches if self._spark else [], self._read_back)
        self._stop_server()
        self._report(tally, took)
        return tally

    # --- the parts ---------------------------------------------------------------------------------------------------

    def _start_server(self) -> float:
        """Start the server on the plan's directory, and return how long it took to answer."""
        began = time.monotonic()
        self._plan.data.mkdir(exist_ok=True)
        settings = ("--port", self._port, "--dir", self._plan.data, "--logfile", self._plan.log("server"))
        self._server = start_child("headrace.demo.children", *settings, log=self._plan.log("server"))
        self._children.append(self._server)
        while True:
            try:
                self._client.ping()
            except GONE:
                if self._server.poll() is not None or time.monotonic() - began > _STALLED_S:
                    raise DemoFailed(f"the server did not start; {self._plan.log('server')} says why") from None
                time.sleep(0.02)
            else:
                return time.monotonic() - began

    def _start_console(self) -> None:
        """Start a console, which stays while the server is killed, and say where it is."""
        settings = ("console", "--url", f"redis://127.0.0.1:{self._port}", "--port", 0)
        ends_with = {"HEADRACE_CONSOLE_PARENT": str(os.getpid())}
        console = start_child("headrace.cli.main", *settings, log=self._plan.log("console"), **ends_with)
        self._children.append(console)
        assert console.stdout is not None  # noqa: S101  (it is a pipe)
        where = console.stdout.readline().strip()
        self._show.say(f"{where}." if where else "There is no console: pip install 'headrace[console]' brings it.")

    def _start_spark(self) -> None:
        if self._without_spark is not None:
            self._show.say(f"Without Spark, so nothing is archived: {self._without_spark}", "yellow")
            return
        began = time.monotonic()
        self._spark = start_child(
            "headrace.demo.pipeline", self._port, self._plan.directory, log=self._plan.log("spark")
        )
        self._children.append(self._spark)
        threading.Thread(target=self._listen_to_spark, args=(self._spark,), daemon=True).start()
        self._show.say("Spark starts: an archive in Parquet, and windows per device.")
        with self._show.waiting("Spark starts, which takes some ten seconds"):
            self._hear_from_spark("running")
        self._show.say(f"Spark runs both queries, {time.monotonic() - began:.0f} s later.")

    def _start_clients(self) -> tuple[subprocess.Popen[str], list[subprocess.Popen[str]]]:
        plan = self._plan
        workers = [
            start_child("headrace.demo.worker", self._port, f"worker-{number}", log=plan.log(f"worker-{number}"))
            for number in range(1, WORKERS + 1)
        ]
        self._children += workers
        shares = [plan.share_of(device) for device in range(1, plan.devices + 1)]
        devices = start_child("headrace.demo.devices", self._port, plan.seconds, *shares, log=plan.log("devices"))
        self._children.append(devices)
        self._show.say(
            f"{plan.devices} devices begin to send {plan.messages:,} messages in {plan.seconds:g} s; "
            f"{WORKERS} workers process them."
        )
        return devices, workers

    def _kill_worker(self, victim: subprocess.Popen[str], began: float) -> None:
        """Kill a worker while it has messages in hand: it is stopped and checked, then killed or resumed."""
        name = f"worker-{names.VICTIM}"
        for _ in range(100):
            os.kill(victim.pid, signal.SIGSTOP)
            held = {one["name"]: one["pending"] for one in self._client.xinfo_consumers(STREAM, GROUP)}.get(name, 0)
            if held:
                break
            os.kill(victim.pid, signal.SIGCONT)
            time.sleep(0.01)
        victim.kill()
        self._record.worker_killed = time.monotonic() - began
        self._show.say(f"{name} is killed with {_messages(held)} in hand, which the others will claim.", "bold")

    def _kill_server(self, began: float, devices: subprocess.Popen[str]) -> None:
        assert self._server is not None  # noqa: S101  (it was started)
        owed = stop_with_answers_owed(
            self._server.pid,
            self._plan.data / "appendonlydir",
            lambda: self._ask_devices(devices)["acknowledged"],
            self._plan.messages,
        )
        self._server.kill()
        self._server.wait()
        self._record.server_killed = time.monotonic() - began
        untold = f"{_messages(owed)} it has written down, and told no device of." if owed else "Nobody is told."
        self._show.say(f"The server is killed with -9. {untold}", "bold")
        time.sleep(names.DOWN_SECONDS)
        loading = self._start_server()
        self._record.server_back = time.monotonic() - began
        there = self._client.xlen(STREAM)
        self._show.say(f"The server is back on the same directory: {there:,} messages, ready in {loading:.1f} s.")

    def _follow_until(self, reached: Callable[[Sample], bool], began: float, devices: subprocess.Popen[str]) -> None:
        """Sample and show until something is reached or nothing moves any more; the count shows what is missing."""
        moved_at, moved = time.monotonic(), (0, 0, 0)
        while True:
            self._hear_from_spark()
            try:
                sent, processed = self._client.xlen(STREAM), self._client.xlen(PROCESSED)
            except GONE:
                raise DemoFailed(f"the server has ended; {self._plan.log('server')} says why") from None
            archived = self._archived if self._spark is not None else None
            sample = Sample(time.monotonic() - began, sent, processed, archived)
            self._record.samples.append(sample)
            self._show.update(sample)
            if reached(sample):
                return
            if devices.poll() not in (None, 0):
                raise DemoFailed(f"the devices have failed; {self._plan.log('devices')} says why")
            if (sent, processed, self._archived) != moved:
                moved_at, moved = time.monotonic(), (sent, processed, self._archived)
            elif time.monotonic() - moved_at > _STALLED_S:
                self._show.say(f"Nothing has moved for {_STALLED_S:.0f} s.", "bold red")
                return
            time.sleep(_SAMPLE_S)

    def _worker_may_die(self, now: Sample) -> bool:
        return now.sent >= self._plan.messages * names.KILL_WORKER_AT

    def _server_may_die(self, now: Sample) -> bool:
        """Whether enough was sent, and Spark is at work."""
        return now.sent >= self._plan.messages * names.KILL_SERVER_AT and now.archived != 0

    def _everything_done(self, now: Sample) -> bool:
        everything = self._plan.messages
        return min(now.sent, now.processed, everything if now.archived is None else now.archived) >= everything

    def _finish_spark(self) -> None:
        if self._spark is None:
            return
        assert self._spark.stdin is not None  # noqa: S101  (it is a pipe)
        self._spark.stdin.write("finish\n")
        self._spark.stdin.flush()
        with self._show.waiting("Spark finishes, and reads back what it has archived"):
            self._hear_from_spark("read back")
            self._spark.wait(60)

    def _stop_server(self) -> None:
        assert self._server is not None  # noqa: S101  (it was started)
        self._server.terminate()
        self._server.wait(60)

    # --- what children say -------------------------------------------------------------------------------------------

    def _ask_devices(self, devices: subprocess.Popen[str]) -> dict[str, int]:
        """Return what the devices have sent by now; after they have ended, their last report."""
        assert devices.stdin is not None and devices.stdout is not None  # noqa: S101, PT018  (they are pipes)
        with contextlib.suppress(BrokenPipeError):  # they have ended, and their last line is there
            devices.stdin.write("?")
            devices.stdin.flush()
        line = devices.stdout.readline()
        self._sent = json.loads(line) if line else self._sent
        return self._sent

    def _hear_from_devices(self, devices: subprocess.Popen[str]) -> dict[str, int]:
        """Return the report that the devices give at their end."""
        assert devices.stdout is not None  # noqa: S101  (it is a pipe)
        try:
            failed = devices.wait(_STALLED_S)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the devices do not end; {self._plan.log('devices')} may say why") from None
        if failed:
            raise DemoFailed(f"the devices have failed; {self._plan.log('devices')} says why")
        for line in devices.stdout:
            self._sent = json.loads(line)
        return self._sent

    def _listen_to_spark(self, spark: subprocess.Popen[str]) -> None:
        assert spark.stdout is not None  # noqa: S101  (it is a pipe)
        for line in spark.stdout:
            self._told.put(json.loads(line))
        self._told.put({"event": "ended"})

    def _hear_from_spark(self, awaited: str | None = None) -> None:
        """Read what Spark has reported; where an event is awaited, wait until it is reported."""
        deadline = time.monotonic() + _SPARK_S
        while True:
            try:
                said = self._told.get(timeout=1) if awaited else self._told.get_nowait()
            except queue.Empty:
                if awaited is None:
                    return
                if time.monotonic() > deadline:
                    raise DemoFailed(f"Spark takes too long; {self._plan.log('spark')} may say why") from None
                continue
            if said["event"] == "batch" and said["query"] == "archive":
                self._archived += said["rows"]
                self._batches.append((said["until"], said["at"]))
            elif said["event"] == "restarted":
                self._show.say(f"Spark's query {said['query']} goes on from its checkpoint.", "yellow")
            elif said["event"] == "read back":
                self._read_back = said
            elif said["event"] == "ended":
                raise DemoFailed(f"Spark has ended; {self._plan.log('spark')} says why")
            if said["event"] == awaited:
                return

    # --- the end -----------------------------------------------------------------------------------------------------

    def _report(self, tally: Tally, took: float) -> None:
        plan, record = self._plan, self._record
        shutil.rmtree(plan.scratch, ignore_errors=True)
        picture = plan.directory / "lag.png"
        drawn = write_picture(record, picture)
        result = {**tally.as_json(), "seconds": took}
        (plan.directory / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        self._show.lag(record)
        down = (record.server_back or 0) - (record.server_killed or 0)
        self._show.tally(
            tally,
            [
                f"{plan.messages:,} messages in {took:.0f} s, {plan.messages / took:,.0f} a second, kills included",
                "processed by " + ", ".join(f"{name}: {count:,}" for name, count in tally.by_worker.items()),
                f"claimed from a worker that had them in hand: {tally.claimed:,}",
                f"the server was away for {down:.1f} s",
            ],
        )
        files = [(plan.data, "the server's: `headrace serve --dir` goes on with it")]
        if self._spark is not None:
            files += [(plan.archive, "every message, Parquet"), (plan.windows, "the windows, Parquet")]
        if drawn:
            files.append((picture, "how far the readers were behind"))
        else:
            self._show.say("There is no lag.png, since there is no matplotlib; pip install 'headrace[demo]' brings it.")
        files.append((plan.directory / "result.json", "all figures"))
        self._show.files(files)
        if not tally.right:
            self._show.say("A count is off: see the table.", "bold red")
        else:
            equal = "sent = processed = archived" if self._spark is not None else "sent = processed"
            self._show.say(f"{equal}: none lost, none twice.", "bold green")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _messages(count: int) -> str:
    return f"{count:,} message" + ("s" if count != 1 else "")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
