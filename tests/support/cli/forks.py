"""Starts `headrace` many times for the price of one: a process that has imported everything and forks for each run.

    test ─► connect, send arguments, environment, directory, and three open files
                 └─► fork ─► fork: main() with these as its standard streams ─► its exit code is sent back

Each run is a process of its own, as from a shell. It saves the time to import everything and to build the commands,
some 0.4 s of processor time. pyarrow is not imported before a fork, because it has threads.

A run ends at once when its command does, or with `to_the_end` as any Python does: what is in buffers is flushed, what
was registered for the end is called.
"""

import json
import os
import socket
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path

import typer.main

from headrace.cli.main import main


def serve(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            handle(connection)
            os._exit(0)
        connection.close()
        reap()


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def handle(connection: socket.socket) -> None:
    message, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    child = os.fork()
    if child == 0:
        connection.close()
        request = json.loads(message)
        be(request, files)
        if request["to_the_end"]:
            main()
            sys.exit()
        os._exit(run())
    _, status = os.waitpid(child, 0)
    connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def be(request: dict[str, object], files: list[int]) -> None:
    """Have the arguments, surroundings and standard streams of a run."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(str(request["directory"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    time.tzset()
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["headrace", *request["arguments"]]  # type: ignore[misc]
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number in request["closed"]:  # type: ignore[operator]
            getattr(sys, name).close()
            setattr(sys, name, None)


def run() -> int:
    """Run the command, and return its exit code."""
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 — as the interpreter would
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def warm_up() -> None:
    """Run commands that fail, so that what is built at the first use is built before the first fork."""
    typer.main.get_command = cache(typer.main.get_command)
    nowhere = ("--url", "redis://127.0.0.1:1")
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        for arguments in (
            *(("top", "--once"), ("tail", "x"), ("inspect", "x"), ("load", "x"), ("export", "x"), ("group", "list")),
            *(("group", "create", "x", "y"), ("group", "drop", "x", "y"), ("group", "pending", "x", "y")),
            *(("group", "reset", "x", "y", "--lag", "1"), ("group", "claim", "x", "y", "--to", "z")),
        ):
            sys.argv = ["headrace", *arguments, *nowhere]
            with suppress(SystemExit):
                main()
        sys.argv = ["headrace", "convert", "/nowhere", "nothing.rdb"]
        with suppress(SystemExit):
            main()


if __name__ == "__main__":
    path = sys.argv[1]
    warm_up()
    serve(path)
