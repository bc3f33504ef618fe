"""What `headrace demo` does: where its files go, whether there is a Spark, and its exit status."""

import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

from headrace.core.errors import HeadraceError
from headrace.demo.conductor import Demo
from headrace.demo.plan import Plan
from headrace.demo.show import Show

_INTERRUPTED: Final = 130


class DirectoryInUse(HeadraceError):
    """The demo begins with an empty directory."""


def run_demo(messages: int, seconds: float, devices: int, directory: Path | None, *, spark: bool, as_json: bool) -> int:
    """Run the demo; 0 where every count is right, 1 where one is off, 130 where it was interrupted."""
    console = Console(highlight=False, stderr=as_json)
    place = _fresh(directory)
    plan = Plan(place, messages, devices, seconds)
    why = _why_no_spark() if spark else "--no-spark was asked for."
    try:
        tally = Demo(plan, Show(console), without_spark=why).run()
    except KeyboardInterrupt:
        shutil.rmtree(place, ignore_errors=True)
        console.print("Interrupted: every process has ended, and the files are gone.")
        return _INTERRUPTED
    if as_json:
        print(json.dumps(tally.as_json()))  # noqa: T201
    return 0 if tally.right else 1


def _fresh(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DirectoryInUse(f"{directory} is there and not empty; name another --directory, or remove it")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.absolute()


def _why_no_spark() -> str | None:
    """Say what the Spark part lacks, and what to do; None where it has everything."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if missing:
        return f"there is no {missing[0]}; pip install 'headrace[spark]' brings it."
    from headrace.spark.errors import NoJava  # noqa: PLC0415 — only with Spark
    from headrace.spark.java import find_java  # noqa: PLC0415

    try:
        find_java()
    except NoJava as none:
        return f"{none}."
    return None
