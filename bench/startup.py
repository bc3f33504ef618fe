"""How long a server takes from its start to its first reply, by what its directory holds.

commands   an append-only file of so many XADDs
a base     the same messages after a rewrite
"""

from __future__ import annotations

import subprocess
import tempfile
import time

from bench.run import Run
from bench.servers import ALONE
from headrace.measuring.rounds import alternated
from headrace.measuring.samples import Finding
from headrace.measuring.targets import (
    HEADRACE,
    REDIS,
    Target,
    await_answer,
    free_port,
    headrace_command,
    redis_command,
    running,
)
from headrace.measuring.workloads import Shape, fill

SETTINGS = ("--save", "", "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
ROUNDS = 3


def start_up(run: Run) -> None:
    """Measure starts with directories of several sizes, and with an empty one."""
    commands = {HEADRACE: headrace_command()}
    if (theirs := redis_command()) is not None:
        commands[REDIS] = theirs
    else:
        run.note(ALONE)
    for messages in (0, *run.scale.start_up):
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
            places = {who: f"{directory}/{number}" for number, who in enumerate(commands)}
            for who, place in places.items():
                run.told(f"writing {messages:,} messages: {who}")
                _prepare(who, commands[who], place, messages)
            run.keep(_started(run, commands, places, messages, "commands"))
            if messages:
                for who, place in places.items():
                    _rewrite(who, commands[who], place)
                run.keep(_started(run, commands, places, messages, "a base"))


def _prepare(who: str, command: list[str], place: str, messages: int) -> None:
    subprocess.run(["mkdir", "-p", place], check=True)
    with running(who, command, SETTINGS, place) as target:
        if messages:
            fill(target, b"s", 0, messages, Shape().words())


def _rewrite(who: str, command: list[str], place: str) -> None:
    with running(who, command, SETTINGS, place) as target:
        target.client.bgrewriteaof()
        while target.client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.01)


def _started(run: Run, commands: dict[str, list[str]], places: dict[str, str], messages: int, form: str) -> Finding:
    rounds: dict[str, list[float]] = {who: [] for who in commands}
    for turn in range(min(ROUNDS, run.scale.rounds)):
        for who in alternated(list(commands), turn):
            run.told(f"start with {messages:,} messages: {who}")
            rounds[who].append(_start(who, commands[who], places[who]))
    name = f"{messages:,} messages, {form}" if messages else "an empty directory"
    return Finding(name, "ms", more_is_better=False, table="Start-up time", at=messages, rounds=rounds)


def _start(who: str, command: list[str], place: str) -> float:
    """Time one start, in milliseconds; then kill the server."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen([*command, "--port", str(port), "--dir", place, *SETTINGS], stdout=subprocess.DEVNULL)
    target = Target(who, {"host": "127.0.0.1", "port": port}, process.pid)
    try:
        await_answer(process, target)
        return 1000 * (time.perf_counter() - began)
    finally:
        target.client.close()
        process.kill()
        process.wait(60)
