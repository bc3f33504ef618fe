"""The code blocks of the READMEs and docs/: found, run, and compared with what the page shows.

    ```python       doctests; all of a page share their names, in its order
    ```console      `$ command` is run by bash, `127.0.0.1:7777> COMMAND` by redis-cli; what follows must be printed
    ```json, toml   must be readable
    ```sql          a query that the Spark of the tests runs
    ```, csv, conf  a drawing or a piece of a file: nothing to run

A page is run from its first line to its last in one empty directory. `headrace serve` runs on until the page ends, or
kills it. Ports 7700 to 7799 stand for free ones. `…` in the output stands for anything, on a line of its own for any
lines; what differs each time (process numbers, times, sizes, IDs of today) is compared by its form. The directory is
/srv, the home /home/me. `export NAME=VALUE` holds for all commands behind it. `headrace pipeline` has one Spark for the
whole page, see `spark_host`.

A block that no test can run has its reason above it:

    <!-- not run: it needs a certificate from outside -->

and a page that has its own test, or none of whose blocks can be run, has that at its top: <!-- page not run: why -->
One that takes minutes has <!-- page run by make test-long: why --> there.
"""

import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.campaign import LONG
from support.ports import free_port
from support.spark import host as spark_host
from support.spark.host import SparkHost

PROJECT = Path(__file__).parents[2]
PAGES = [
    *(PROJECT / "README.md", PROJECT / "README.zh-CN.md"),
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "docs" / "zh").glob("*.md")),
]

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_PAGE_NOT_RUN = re.compile(r"^<!-- page not run: (.+) -->$", re.MULTILINE)
_PAGE_RUN_LONG = re.compile(r"^<!-- page (run by make test-long: .+) -->$", re.MULTILINE)
_PROMPT = re.compile(r"^127\.0\.0\.1:(77\d\d)> (.*)$")
_PORT = re.compile(r"\b77\d\d\b")
_FORMS = (
    (re.compile(r"^\d+:[MSC] \d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3}"), "PID TIME"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\b1[78]\d{11}-\d+\b"), "ID"),
    (re.compile(r"\b1[78]\d{8}\b"), "SECONDS"),
    (re.compile(r"\bin \d+\.\d+ seconds\b"), "in N seconds"),
    (re.compile(r" +\d[\d.]* [KMG]?B\b"), " SIZE"),
    (re.compile(r"\b\d+ bytes\b"), "N bytes"),
    (re.compile(r"\boffset \d+\b"), "offset N"),
    (re.compile(r"\s+$"), ""),
)
_SERVE = re.compile(r"^(\S*/)?headrace serve\b")
_DATA = {"", "conf", "csv", "ini"}
_SECONDS = 900  # which only a fault reaches, also where Spark runs on a busy machine


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Find the blocks of a page."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    before = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            before = line or before
            continue
        inside = []
        for _, inner in lines:
            if inner == "```":
                break
            inside.append(inner)
        marked = _NOT_RUN.match(before)
        found.append(Block(page, number, fence[1], "\n".join(inside) + "\n", marked[1] if marked else None))
        before = ""
    return found


def why_not_run(page: Path) -> str | None:
    """Return why no block of a page is run here; None where they are."""
    marked = _PAGE_NOT_RUN.search(page.read_text())
    if marked is None and not LONG:
        marked = _PAGE_RUN_LONG.search(page.read_text())
    if marked is not None:
        return marked[1]
    tests = (path for path in PROJECT.glob("tests/*/test_*.py") if path.parent.name != "docs")  # where pages are run
    own = next((path for path in tests if f'"docs" / "{page.name}"' in path.read_text()), None)
    return f"{own.relative_to(PROJECT)} runs it" if own is not None and blocks_of(page) else None


class PageRun:
    """One page, run in one directory."""

    def __init__(self, directory: Path, names: dict[str, Any]) -> None:
        self._directory = directory
        self._home = directory / ".home"
        self._names = names
        self._ports: dict[str, str] = {}
        self._servers: list[subprocess.Popen[str]] = []
        self._exported: dict[str, str] = {}
        self._host: SparkHost | None = None
        self._write_commands()

    def run(self, block: Block) -> None:
        """Run a block; an AssertionError says what it printed instead."""
        if block.reason is not None:
            return
        if block.language in _DATA:
            assert not block.text.startswith("$ "), f"{block}: commands stand in ```console"
            return
        if block.language == "python":
            self._end_host()  # whose Java has the archive, and the page's own may want it
            self._run_python(block)
        elif block.language == "console":
            if self._host is None and re.search(r"\bheadrace pipeline\b", block.text):
                self._host = SparkHost(self._directory)
                self._exported["SPARK_HOST"] = str(self._host.socket)
            self._run_console(block)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "sql":
            self._run_sql(block)
        else:
            raise AssertionError(f"{block}: nothing is known about ```{block.language}; mark it <!-- not run: why -->")

    def close(self) -> None:
        """End the servers, those that went into the background included."""
        self._end_host()
        for port in self._ports.values():
            self._bash(f"redis-cli -p {port} SHUTDOWN NOSAVE 2>/dev/null")
        for server in self._servers:
            server.kill()
            server.wait()
            assert server.stdout is not None
            server.stdout.close()

    def _end_host(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None

    # --- python ----------------------------------------------------------------------------------------------------

    def _run_python(self, block: Block) -> None:
        text = self._with_ports(block.text).replace("/srv", str(self._directory))
        if ">>>" not in text:
            exec(compile(text, str(block), "exec"), self._names)  # noqa: S102  (our own pages)
            return
        test = doctest.DocTestParser().get_doctest(text, self._names, str(block), str(block.page), block.line)
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, out=said.append, clear_globs=False)
        self._names.update(test.globs)
        assert not runner.failures, "".join(said)

    def _run_sql(self, block: Block) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415  (a page with SQL is skipped where there is none)

        assert SparkSession.active().sql(block.text.replace("/srv", str(self._directory))).collect()

    # --- console ---------------------------------------------------------------------------------------------------

    def _run_console(self, block: Block) -> None:
        for command, expected in _commands(block.text):
            if command.startswith("redis-cli") and "-p" in command and not expected and _is_interactive(command):
                continue  # the prompts that follow are run one by one
            if _SERVE.match(command) and (not expected or "Ready to accept" in expected[-1]):
                printed = self._serve(command)
            else:
                printed = self._call(command)
            printed = [
                line.replace(str(self._home), "/home/me").replace(str(self._directory), "/srv") for line in printed
            ]
            shown = [self._with_ports(line) for line in expected]
            assert _alike(shown, printed), (
                f"{block}: $ {command}\nthe page shows:\n" + "\n".join(shown) + "\nit prints:\n" + "\n".join(printed)
            )

    def _call(self, command: str) -> list[str]:
        prompt = _PROMPT.match(command)
        if command.startswith("export "):
            name, _, value = self._with_ports(command).removeprefix("export ").partition("=")
            self._exported[name] = value
            return []
        if prompt is not None:
            arguments = ["redis-cli", "--no-raw", "-p", self._with_ports(prompt[1])]
            done = self._bash(shlex.join(arguments), standard_input=prompt[2] + "\n")
        else:
            done = self._bash(self._with_ports(command).replace("/srv", str(self._directory)))
        return [line.rstrip() for line in done.splitlines()]

    def _bash(self, command: str, standard_input: str = "") -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._directory,
            env=self._environment(),
            input=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return done.stdout

    def _serve(self, command: str) -> list[str]:
        """Start a server, and return what it prints up to where it is ready."""
        server = subprocess.Popen(
            ["bash", "-c", "exec " + self._with_ports(command).rstrip("& ")],
            cwd=self._directory,
            env=self._environment() | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers.append(server)
        assert server.stdout is not None
        printed = []
        for line in server.stdout:
            printed.append(line.rstrip())
            if "Ready to accept connections" in line:
                return printed
        raise AssertionError(f"$ {command} ended with:\n" + "\n".join(printed))

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self._directory / ".venv" / "bin"), os.environ["PATH"]))
        sources = os.pathsep.join(entry for entry in sys.path if entry)
        ours = {"HOME": str(self._home), "PATH": path, "PYTHONPATH": sources, "COLUMNS": "100", "TERM": "dumb"}
        return os.environ | ours | self._exported

    def _write_commands(self) -> None:
        """Put the commands that pages call where pages call them."""
        programs = self._directory / ".venv" / "bin"
        programs.mkdir(parents=True)
        python = shlex.quote(sys.executable)
        jobs = f'[ "$1" = pipeline ] && exec {python} {spark_host.__file__} "$@"\n'
        scripts = {
            "headrace": f'{jobs}exec {python} -m headrace.cli.main "$@"',
            "python": f'exec {python} "$@"',
        }
        if shutil.which("redis-sentinel") is None:  # which is redis-server under another name
            scripts["redis-sentinel"] = 'exec redis-server "$@" --sentinel'
        for name, script in scripts.items():
            program = programs / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

    def _with_ports(self, text: str) -> str:
        return _PORT.sub(lambda match: self._ports.setdefault(match[0], str(free_port())), text)


def _is_interactive(command: str) -> bool:
    """Whether a redis-cli was given no command: nothing but options and their values."""
    words = shlex.split(command)[1:]
    return all(
        word.startswith("-") or before.startswith("-") for before, word in zip(["-", *words], words, strict=False)
    )


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Cut a block into commands and what each prints; a backslash at the end of a line goes on with the next."""
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if not line.startswith("$ ") and not _PROMPT.match(line):
            raise AssertionError(f"a console block begins with a command, not with {line!r}")
        command = line.removeprefix("$ ")
        while command.endswith("\\"):
            command = command[:-1].rstrip() + " " + lines[place].strip().removeprefix("> ")
            place += 1
        expected = []
        while place < len(lines) and not lines[place].startswith("$ ") and not _PROMPT.match(lines[place]):
            expected.append(lines[place])
            place += 1
        yield command, expected


def _alike(expected: list[str], printed: list[str]) -> bool:
    """Whether lines are what a page shows; `…` stands for anything."""
    pattern = r"\n".join(
        r"(?:.*(?:\n.*)*)" if line.strip() == "…" else re.escape(_form(line)).replace("…", ".*")
        for line in _stripped(expected)
    )
    return re.fullmatch(pattern, "\n".join(map(_form, _stripped(printed)))) is not None


def _stripped(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _form(line: str) -> str:
    for pattern, name in _FORMS:
        line = pattern.sub(name, line)
    return line
