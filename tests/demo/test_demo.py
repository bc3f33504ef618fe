"""`headrace demo`, run small: kills included, nothing lost, nothing twice, and no process left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

import headrace.demo.running as cli
from headrace.demo.conductor import Demo
from headrace.demo.lag import LagRecord, Sample, draw
from headrace.demo.lag_picture import write_picture
from headrace.demo.plan import PROCESSED, STREAM, Plan
from headrace.demo.tally import Count, Tally, count_everything
from headrace.spark.errors import NoJava

COMMAND = [sys.executable, "-m", "headrace.cli.main", "demo"]
SMALL = ["--messages", "3000", "--seconds", "5"]
PLACES = ["acknowledged to the devices", "in the stream", "processed by the group"]
WITH_SPARK = [*PLACES, "archived to Parquet", "counted in windows"]


def marked_environment() -> tuple[dict[str, str], str]:
    """Return an environment that all children inherit, and the mark by which they are found."""
    mark = f"HEADRACE_DEMO_TEST={uuid4()}"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    name, _, value = mark.partition("=")
    return os.environ | {"PYTHONPATH": path, name: value}, mark


def living(mark: str) -> list[str]:
    """Return the command lines of the processes that have a mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def run(directory: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    environment, mark = marked_environment()
    done = subprocess.run(
        [*COMMAND, *SMALL, "--directory", str(directory), "--json", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert living(mark) == []
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def check(figures: dict[str, Any], places: list[str]) -> None:
    assert figures["counts"] == [{"place": place, "messages": 3000, "lost": 0, "twice": 0} for place in places]
    assert figures["right"] is True


def test_two_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    code, figures, shown = run(tmp_path / "demo", "--no-spark")
    assert code == 0, shown
    check(figures, PLACES)
    assert figures["recognised"] <= figures["sent_again"]
    assert (figures["recognised"] > 0) == ("told no device of" in shown), shown
    assert "worker-2 is killed with" in shown
    assert "The server is back on the same directory" in shown
    assert "--no-spark was asked for." in shown
    assert (tmp_path / "demo" / "lag.png").read_bytes().startswith(b"\x89PNG")
    assert "sent, not yet processed" in shown


@pytest.mark.timeout(600)
def test_spark_archives_every_message_once_while_the_server_is_killed(tmp_path: Path) -> None:
    why = cli._why_no_spark()
    if why is not None:
        pytest.skip(why)
    code, figures, shown = run(tmp_path / "demo")
    assert code == 0, shown
    check(figures, WITH_SPARK)
    assert "sent, not yet archived" in shown
    assert {path.name for path in (tmp_path / "demo").iterdir()} >= {"archive", "data", "windows", "lag.png"}
    assert not (tmp_path / "demo" / "spark").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    with_java = cli._why_no_spark() is None and number == signal.SIGINT
    environment, mark = marked_environment()
    demo = subprocess.Popen(
        [*COMMAND, *SMALL, "--directory", str(tmp_path / "demo"), *([] if with_java else ["--no-spark"])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        awaited = "org.apache.spark" if with_java else "headrace.demo.devices"
        wait_until(lambda: any(awaited in line for line in living(mark)), f"{awaited} did not start")
        demo.send_signal(number)
        shown, _ = demo.communicate(timeout=120)
    finally:
        demo.kill()
    assert demo.returncode == 130, shown
    assert shown.rstrip().endswith("Interrupted: every process has ended, and the files are gone.")
    assert "Traceback" not in shown
    assert living(mark) == []
    assert not (tmp_path / "demo").exists()


def test_children_end_when_the_demo_is_killed_outright(tmp_path: Path) -> None:
    environment, mark = marked_environment()
    demo = subprocess.Popen(
        [*COMMAND, *SMALL, "--directory", str(tmp_path / "demo"), "--no-spark"],
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: any("headrace.demo.devices" in line for line in living(mark)), "no devices")
    finally:
        demo.kill()
        demo.wait()
    wait_until(lambda: not living(mark), "something lives on")


def plan_of(directory: Path) -> Plan:
    return Plan(directory, messages=4, devices=2, seconds=1)


def fill(server: redis.Redis, *, leave_out: int = 0, twice: bool = False) -> None:
    messages = [(device, n) for device in (1, 2) for n in (0, 1)]
    for device, n in messages[leave_out:]:
        id = server.xadd(STREAM, {"dev": device, "temp": 20, "n": n, "at": 1})
        for _ in range(1 + twice):
            server.xadd(PROCESSED, {"id": id, "worker": "worker-1", "took": 5, "deliveries": 1})


@pytest.mark.parametrize(
    ("leave_out", "twice", "expected"),
    [
        (0, False, [(4, 0, 0)] * 3),
        (1, False, [(4, 0, 0), (3, 1, 0), (3, 1, 0)]),
        (0, True, [*[(4, 0, 0)] * 2, (8, 0, 4)]),
    ],
)
def test_what_is_lost_or_twice_is_counted(
    headrace_server: redis.Redis, tmp_path: Path, leave_out: int, twice: bool, expected: list[tuple[int, int, int]]
) -> None:
    fill(headrace_server, leave_out=leave_out, twice=twice)
    client = redis.Redis(
        port=headrace_server.connection_pool.connection_kwargs["port"], decode_responses=True, protocol=2
    )
    tally = count_everything(client, plan_of(tmp_path), {"acknowledged": 4, "repeated": 0}, [], None)
    client.close()
    assert [(count.messages, count.lost, count.twice) for count in tally.counts] == expected
    assert tally.right == (not leave_out and not twice)


def test_a_message_is_archived_when_the_batch_ends_that_has_it(headrace_server: redis.Redis, tmp_path: Path) -> None:
    for n, at in enumerate((1_000_000, 2_000_000)):
        headrace_server.xadd(STREAM, {"dev": 1, "temp": 20, "n": n, "at": at}, id=f"{n + 1}-0")
    client = redis.Redis(
        port=headrace_server.connection_pool.connection_kwargs["port"], decode_responses=True, protocol=2
    )
    told = {"acknowledged": 2, "repeated": 0}
    read_back = {"rows": 3, "distinct": 2, "windows": [{"dev": 1, "begin": 0, "messages": 1, "mean": 20.0}]}
    tally = count_everything(client, Plan(tmp_path, 2, 1, 1), told, [("1-0", 1.5), ("2-5", 4.0)], read_back)
    client.close()
    assert tally.archived_within == {"50 %": 2000.0, "95 %": 2000.0, "99 %": 2000.0, "all": 2000.0}
    assert tally.counts[3:] == [Count("archived to Parquet", 3, 0, 1), Count("counted in windows", 1, 1, 0)]


def test_the_lag_is_drawn_as_high_as_it_was() -> None:
    record = LagRecord([Sample(second, 100 * second, 50 * second, None) for second in range(11)], worker_killed=3.0)
    assert record.behind("processed")[-1] == (10, 500)
    assert record.behind("archived") == []
    title, *rows, axis = draw(record.behind("processed"), "behind", record.marks(), width=40)
    assert title == " behind"
    assert [row[:6] for row in rows] == [" 500 ┤", "     │", "     │", "   0 ┼"]
    assert rows[0].endswith("█")
    assert rows[-1].count("█") > rows[0].count("█")
    assert axis.split() == ["0:00", "▲", "worker", "killed", "0:10"]
    assert max(map(len, [title, *rows, axis])) <= 40


def test_without_matplotlib_there_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not write_picture(LagRecord([Sample(1, 2, 1, None)]), tmp_path / "lag.png")


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
def test_it_leaves_with_1_where_a_count_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, code: int
) -> None:
    tally = Tally([Count("in the stream", 10, lost, 0)], {}, 0, 0, 0, {}, {}, [])
    monkeypatch.setattr(Demo, "run", lambda _: tally)
    assert cli.run_demo(1000, 5, 1, tmp_path, spark=False, as_json=False) == code


def test_a_missing_java_is_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> Path:
        raise NoJava("there is none: install one")

    monkeypatch.setattr("headrace.spark.java.find_java", find_none)
    assert cli._why_no_spark() == "there is none: install one."


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    environment, _ = marked_environment()
    done = subprocess.run(
        [*COMMAND, "--directory", str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"headrace: {tmp_path} is there and not empty; name another --directory, or remove it\n")
    assert (tmp_path / "mine").read_text() == "x"
