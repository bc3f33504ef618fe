"""The sections of a run, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from bench.core_rates import core
from bench.durable import durable
from bench.embedded import in_process
from bench.generator import generator
from bench.growth import growth
from bench.harness import fresh
from bench.memory import memory
from bench.run import Run
from bench.serving import append, groups, manage, read
from bench.startup import start_up


@dataclass(frozen=True)
class Section:
    """A part of the run that can be repeated alone."""

    name: str
    title: str
    measure: Callable[[Run], None]


def spark(run: Run) -> None:
    """Run bench.spark where there is one, a PySpark and a Java; its `measure()` returns the rows of a table.

    All rows have the same columns; what `met` says of a `goal` is told with the other goals.
    """
    if find_spec("bench.spark") is None or find_spec("pyspark") is None:
        run.note("Spark was not measured: there is no bench/spark.py, or no PySpark.")
        return
    from headrace.spark.errors import NoJava  # noqa: PLC0415 — needs PySpark
    from headrace.spark.java import prepare_java  # noqa: PLC0415

    try:
        prepare_java()
    except NoJava as error:
        run.note(f"Spark was not measured: {error}")
        return
    run.told("jobs of Spark")
    run.keep_table("Jobs of Spark", fresh(import_module("bench.spark").measure))


SECTIONS = [
    Section("append", "Appending", append),
    Section("read", "Reading", read),
    Section("groups", "Groups", groups),
    Section("manage", "Looking after streams", manage),
    Section("durable", "On disk", durable),
    Section("startup", "Starting", start_up),
    Section("memory", "Memory", memory),
    Section("in-process", "In process", in_process),
    Section("growth", "Growth", growth),
    Section("spark", "Spark", spark),
    Section("core", "The core", core),
    Section("generator", "The load generator", generator),
]
BY_NAME = {section.name: section for section in SECTIONS}
