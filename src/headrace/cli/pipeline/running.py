"""One run of a job: starts Spark, shows a line on the terminal while the job works, and prints what it did."""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from headrace.cli.command import ENDED, INTERRUPTED
from headrace.cli.interrupts import Terminated, terminable
from headrace.cli.pipeline.options import JobOptions
from headrace.pipelines.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.running import Progress, Watch

Result = TypeVar("Result")


def run_job(
    work: Callable[["SparkSession", "Watch"], Result], told: Callable[[Result], str], *, doing: str, options: JobOptions
) -> Result:
    """Run a job in a session of its own and print what it did; what is wrong is raised as a HeadraceError."""
    try:
        with (
            terminable(),
            _silence(verbose=options.verbose),
            _line(f"starting Spark on {options.master}") as say,
            spark_session(options.master, verbose=options.verbose) as spark,
        ):
            say(doing)

            def watch(progress: "Progress") -> None:
                for fate in progress.fates:
                    typer.echo(f"headrace: {fate}", err=True)
                say(f"{doing}: {shown_progress(progress)}")

            result = work(spark, watch)
    except KeyboardInterrupt as stopped:
        how, code = ("ended", ENDED) if isinstance(stopped, Terminated) else ("interrupted", INTERRUPTED)
        typer.echo(f"headrace: {doing} was {how}; run it again to go on", err=True)
        raise typer.Exit(code) from None
    if options.as_json:
        typer.echo(json.dumps(_plain(result), indent=2))
    else:
        typer.echo(told(result))
    return result


@contextmanager
def _silence(*, verbose: bool) -> Iterator[None]:
    """Keep off the terminal the errors that PySpark logs although it raises them, too."""
    before = logging.root.manager.disable
    if not verbose:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _line(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what the job does; the line is removed at the end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(text)) as status:
        yield lambda now: status.update(Text(now))


def shown_progress(progress: "Progress") -> str:
    """Say how far a job is."""
    of = "" if progress.total is None else f" of {progress.total:,}"
    speed = f", {progress.per_second:,.0f}/s" if progress.per_second else ""
    behind = "" if progress.lag is None or not progress.lag.streams else f"; {progress.lag}"
    kept = "" if progress.state is None else f"; {progress.state}"
    return f"{progress.entries:,}{of} entries{speed}{behind}{kept}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value
