"""How two processes share the tests: `pytest --numprocesses 2`, which is what `make test` does.

    one        demo, docs, pipelines, spark          all that runs on Spark, one after the other, since it takes longest
    other      a file, and the next, and the next    and so does the first one when it is done

Two Sparks at a time would need twice the memory, and start no sooner. The tests of a file share a server, and a few of
them what the ones before have counted. Files that take long come early, so that in the end no process waits for another
that has just begun with one: the stories were the last, and the one with a Spark of its own took a minute.
"""

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ON_SPARK = {"demo", "docs", "pipelines", "spark"}
EARLY = ("stories", "server", "hostile", "storage")


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
