"""Every example of every help does what it says, against a server that runs and on files that are there."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from support.cli.examples import Example, all_commands, examples_of, fill
from support.cli.process import COMMAND, environment, output
from support.ports import free_port
from support.starting import wait_for

WITH_A_SERVER = ("top", "tail", "group", "dead", "policy", "inspect", "load", "export", "bench")
ON_FILES = ("convert", "check")
ELSEWHERE = {
    "serve": "below",
    "migrate": "test_cli_migrate.py, between two servers",
    "demo": "tests/demo runs it",
    "console": "tests/console runs it",
    "pipeline": "its commands have their own",
    **dict.fromkeys(
        (
            f"pipeline {job}"
            for job in ("load", "archive", "compact", "replay", "transform", "watch", "report", "audit")
        ),
        "test_cli_pipeline_examples.py",
    ),
    **dict.fromkeys(
        (f"group {name}" for name in ("list", "create", "reset", "drop", "claim", "pending")), "with those of group"
    ),
    **dict.fromkeys((f"dead {name}" for name in ("list", "show", "redrive", "drop")), "with those of dead"),
    **dict.fromkeys((f"policy {name}" for name in ("set", "get", "del", "list")), "with those of policy"),
}


def check(example: Example, server: redis.Redis, directory: Path) -> None:
    done = example.run(server, directory)
    assert done.returncode == 0, f"{example}: {done.stderr.decode()}"
    assert done.stdout + done.stderr, f"{example} says nothing"
    if "--json" in example.line:
        json.loads(done.stdout)


def test_no_command_is_left_out() -> None:
    assert {*WITH_A_SERVER, *ON_FILES, *ELSEWHERE} == set(all_commands())


@pytest.mark.timeout(300)
def test_examples_that_speak_to_a_server(headrace_server: redis.Redis, tmp_path: Path) -> None:
    fill(headrace_server, tmp_path)
    output("convert", "dump.rdb", "data", "--to", "aof", cwd=tmp_path)
    examples = examples_of(*WITH_A_SERVER)
    assert len(examples) >= 28
    for example in examples:
        if "bench --compare" in example.line and shutil.which("redis-server") is None:
            continue
        check(example, headrace_server, tmp_path)
    assert headrace_server.xlen("devmsg") == 25
    assert headrace_server.xinfo_groups("devmsg")[0]["name"] == b"workers"
    assert {"devmsg.parquet", "today.csv"} <= {file.name for file in tmp_path.iterdir()}


def test_examples_on_files(headrace_server: redis.Redis, tmp_path: Path) -> None:
    fill(headrace_server, tmp_path)
    for example in examples_of("convert"):
        check(example, headrace_server, tmp_path)
    assert {"data", "old.rdb", "archive", "restored.rdb"} <= {file.name for file in tmp_path.iterdir()}
    shutil.copy(tmp_path / "dump.rdb", tmp_path / "data")
    for example in examples_of("check"):
        check(example, headrace_server, tmp_path)


def test_examples_of_serve(tmp_path: Path) -> None:
    (tmp_path / "headrace.conf").write_text("appendonly no\n")
    for example in examples_of("serve"):
        port = free_port()
        words = example.line.replace("/etc", str(tmp_path)).replace(" --port 7000", "").split()[1:]
        server = subprocess.Popen(
            [*COMMAND, *words, "--port", str(port)], cwd=tmp_path, env=environment(None), stdout=subprocess.DEVNULL
        )
        client = redis.Redis(port=port)
        try:
            wait_for(server, client)
            assert client.ping()
            server.send_signal(signal.SIGTERM)
            assert server.wait(120) == 0, example
        finally:
            client.close()
            server.kill()
            server.wait()
