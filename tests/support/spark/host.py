"""`headrace pipeline …` many times for the price of one Spark: a process that keeps a session and runs commands in it.

    test ─► host = SparkHost(directory)      Java resolves paths where it was started, so a host belongs to a directory
            host.run(["pipeline", …], {…}) ─► a line of JSON ─► the command, in that process ─► code and output

Where SPARK_HOST names a host's socket, `python spark_host.py pipeline …` is the command for a shell.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

PATIENCE_S = 1200  # which only a fault reaches, however busy the machine is
PASSED_ON = ("HEADRACE_URL", "HOME", "XDG_STATE_HOME")  # of a shell's surroundings


class SparkHost:
    """A process with a Spark, in a directory; ready when it is made."""

    def __init__(self, directory: Path) -> None:
        self._place = tempfile.mkdtemp(prefix="spark-host-")  # the path of a socket is short
        self.socket = Path(self._place, "socket")
        paths = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--host", str(self.socket)],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": paths, "TZ": "UTC"},
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self.socket.exists():
            assert self._process.poll() is None, "the host of Spark has ended"
            assert time.monotonic() < deadline, "Spark does not start"
            time.sleep(0.1)

    def run(self, arguments: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        return ask(self.socket, arguments, environment)

    def close(self) -> None:
        """End the process, and its Java with it."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        shutil.rmtree(self._place, ignore_errors=True)


def ask(path: Path, arguments: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Have a host run a command."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        connection.sendall(json.dumps([arguments, dict(environment)]).encode() + b"\n")
        with connection.makefile("r") as answer:
            code, output = json.loads(answer.readline())
    return code, output


def _serve(path: Path) -> None:
    """Be the host."""
    from typer.testing import CliRunner  # noqa: PLC0415  (who only asks does not need them)

    from headrace.cli.app import app  # noqa: PLC0415
    from support.spark.sessions import start_spark  # noqa: PLC0415

    start_spark(path.parent)
    listener = socket.socket(socket.AF_UNIX)
    beginning = path.with_suffix(".new")
    listener.bind(str(beginning))
    listener.listen()
    beginning.rename(path)
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("r") as request:
            arguments, environment = json.loads(request.readline())
            result = CliRunner(env=environment).invoke(app, arguments)
            wrong = f"headrace: {result.exception}\n" if result.exit_code == 1 else ""
            connection.sendall(json.dumps([result.exit_code, result.output + wrong]).encode() + b"\n")


def _main() -> None:
    if sys.argv[1] == "--host":
        _serve(Path(sys.argv[2]))
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    code, output = ask(Path(os.environ["SPARK_HOST"]), sys.argv[1:], passed_on)
    sys.stdout.write(output)
    sys.exit(code)


if __name__ == "__main__":
    _main()
