"""`headrace check`: what is in a data directory and what is wrong with it, as a table or as JSON."""

import json
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.showing import number, size
from headrace.cli.terminal import output_console, run_steps
from headrace.storage.check import DAMAGED, MISSING, OK, CheckReport, FileReport, check
from headrace.storage.disk import Disk
from headrace.storage.repair import cut_prepared_space, repaired_path, write_repaired

_COLOURS: Final = {OK: "green", DAMAGED: "red", MISSING: "red"}
_LISTED: Final = 10  # problems of one file in the table; JSON has all


def run_check(path: Path, *, fix: bool, output: Path | None, as_json: bool) -> int:
    """Check, print, repair where that is asked for; return the exit code."""
    disk = Disk()
    console = output_console()
    path = path.absolute()
    report = run_steps("checking", check(path, disk))
    target: Path | None = None
    left: list[str] = []
    cut = cut_prepared_space(report, disk) if fix and not report.problems else 0
    if fix and report.problems:
        target = (output or repaired_path(report.path)).absolute()
        left = write_repaired(report, target, disk)
    if as_json:
        console.print_json(json.dumps(_as_json(report, target, left, cut)))
    else:
        _print(report, target, left, console)
        if cut:
            console.print(
                Text(f"{cut} bytes of prepared space were cut off; Redis and redis-check-aof take the files now."),
                soft_wrap=True,
            )
    return 1 if report.problems else 0


# --- printing ------------------------------------------------------------------------------------------------------


def _print(report: CheckReport, target: Path | None, left: list[str], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    table.add_column("kind")
    for name in ("size", "keys", "commands"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for file in report.files:
        table.add_row(
            Text(_relative(file.path, report)),
            file.kind,
            size(file.size),
            number(file.keys),
            number(file.commands),
            Text(file.status, style=_COLOURS.get(file.status, "yellow")),
        )
    console.print(table)
    console.print()
    for file in report.files:
        for remark in _remarks(file):
            console.print(Text(f"{_relative(file.path, report)}: {remark}"), soft_wrap=True)
    console.print(Text(report.verdict), soft_wrap=True)
    if target is not None:
        console.print(Text(f"The repaired copy is {target}; the original is as it was."), soft_wrap=True)
        for sentence in left:
            console.print(Text(f"Not repaired: {sentence}."), soft_wrap=True)
    elif report.problems:
        console.print(f"`headrace check --fix {report.path}` repairs what can be, in a copy.", soft_wrap=True)


def _remarks(file: FileReport) -> list[str]:
    lines = [
        problem.text if problem.offset is None else f"offset {problem.offset}: {problem.text}"
        for problem in file.problems[:_LISTED]
    ]
    if len(file.problems) > _LISTED:
        lines.append(f"and {len(file.problems) - _LISTED} more; --json has all")
    lines += file.notes[:_LISTED]
    if len(file.notes) > _LISTED:
        lines.append(f"and {len(file.notes) - _LISTED} more notes; --json has all")
    return lines


def _relative(path: Path, report: CheckReport) -> str:
    return str(path.relative_to(report.path)) if path.is_relative_to(report.path) and path != report.path else path.name


def _as_json(report: CheckReport, target: Path | None, left: list[str], cut: int) -> dict[str, object]:
    return {
        "path": str(report.path),
        "sound": not report.problems,
        "verdict": report.verdict,
        "in_use": report.in_use,
        "files": [
            {
                "file": _relative(file.path, report),
                "kind": file.kind,
                "status": file.status,
                "size": file.size,
                "keys": file.keys,
                "commands": file.commands,
                "groups": file.groups,
                "nodes": file.nodes,
                "problems": [{"offset": problem.offset, "problem": problem.text} for problem in file.problems],
                "notes": file.notes,
            }
            for file in report.files
        ],
        "repaired": None if target is None else str(target),
        "not_repaired": left,
        "cut": cut,
    }
