"""How processes share the tests: `pytest --numprocesses 4`, which is what `make test` does.

    one        demo, docs, pipelines, spark          all that runs on Spark, one after the other: it takes longest
    others     all other files, one after the other  the first process helps with them when it is done

There are more processes than cores because many tests wait: for a clock, a disk, a process that starts.
Two Sparks at a time would need twice the memory, and would not start sooner. The tests of a file share a server, and a
few depend on the counts of the tests before them. Files that take long come early, so that at the end no process waits
for another that has just begun a long file: when the stories were last, the one with a Spark took a minute.
"""

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ON_SPARK = {"demo", "docs", "pipelines", "spark"}
EARLY = ("stories", "server", "hostile", "replication", "storage")


def is_on_spark(nodeid: str) -> bool:
    return PurePosixPath(nodeid.partition("::")[0]).parent.name in ON_SPARK


def turn_of(nodeid: str) -> int:
    """The turn of a test, among all; those of one turn keep their order."""
    if is_on_spark(nodeid):
        return 0
    directory = PurePosixPath(nodeid.partition("::")[0]).parent.name
    return 1 + (EARLY.index(directory) if directory in EARLY else len(EARLY))


class Sharing(LoadScopeScheduling):
    """Hands out what stays together, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if is_on_spark(nodeid) else nodeid.partition("::")[0]
