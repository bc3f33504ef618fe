"""How processes share the tests: `pytest --numprocesses 4`, which is what `make test` does.

    one        spark, pipelines, pages with a Spark  all that shares one Spark, one after the other: it takes longest
    others     all other files and pages             the first process helps with them when it is done

There are more processes than cores because many tests wait: for a clock, a disk, a process that starts.
Two Sparks at a time would need twice the memory, and would not start sooner. The tests of a file share a server, and a
few depend on the counts of the tests before them. Files that take long come early, so that at the end no process waits
for another that has just begun a long file: when the stories were last, the one with a Spark took a minute.
"""

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ON_SPARK = {"pipelines", "spark"}
PAGES_ON_SPARK = ("[README.md]", "docs/pipelines.md]", "docs/spark.md]")
EARLY = ("stories", "demo", "docs", "server", "hostile", "replication", "storage")


def directory_of(nodeid: str) -> str:
    return PurePosixPath(nodeid.partition("::")[0]).parent.name


def is_on_spark(nodeid: str) -> bool:
    return directory_of(nodeid) in ON_SPARK or nodeid.endswith(PAGES_ON_SPARK)


def turn_of(nodeid: str) -> int:
    """The turn of a test, among all; those of one turn keep their order."""
    if is_on_spark(nodeid):
        return 0
    directory = directory_of(nodeid)
    return 1 + (EARLY.index(directory) if directory in EARLY else len(EARLY))


class Sharing(LoadScopeScheduling):
    """Hands out what stays together, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        if is_on_spark(nodeid):
            return "spark"
        return nodeid if directory_of(nodeid) == "docs" else nodeid.partition("::")[0]
