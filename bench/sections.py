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
    about: str = ""


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
    Section("append", "Appending", append, "XADD with generated IDs, in memory."),
    Section(
        "read",
        "Reading",
        read,
        "A stream of a million messages, read from places at random; and readers that wait: the time from an XADD "
        "until each of them has its reply.",
    ),
    Section(
        "groups",
        "Groups",
        groups,
        "A stream of a million messages. A consumer sends the XACK of what it has together with its next XREADGROUP.",
    ),
    Section(
        "manage", "Looking after streams", manage, "A stream of a million messages, all pending where it has a group."
    ),
    Section("durable", "On disk", durable, "Append-only files on the same disk, `appendfsync` as it is said."),
    Section(
        "startup",
        "Starting",
        start_up,
        "From the start of the process to its first reply. A Headrace that starts is a Python that imports it, "
        "which is all that an empty directory takes.",
    ),
    Section(
        "memory",
        "Memory",
        memory,
        "Heap bytes by the server's own count, and, resident, the growth of its process, which is all that fakeredis "
        "can be asked for. Half acknowledged: a random half, and the bytes for each entry that is still pending.",
    ),
    Section(
        "in-process",
        "In process",
        in_process,
        "`headrace.open`, by its own streams and by a redis-py client without a socket; fakeredis; and redis-py with "
        "a redis-server on the loopback.",
    ),
    Section(
        "growth",
        "Growth",
        growth,
        "Requests go to places at random: of a longer stream less is in the processor's caches, for both servers. What "
        "takes more than twice as much in the longest stream as in the shortest is marked.",
    ),
    Section("spark", "Spark", spark),
    Section("core", "The core", core, "Without a server, by processor time; a million entries."),
    Section(
        "generator",
        "The load generator",
        generator,
        "The same XADD from 50 clients by `headrace bench` and by redis-benchmark.",
    ),
]
BY_NAME = {section.name: section for section in SECTIONS}
