"""Starting streaming queries on a machine that may be busy.

Spark gives the Python process of a query's source ten seconds to start, and nothing can change that. Two queries that
start at the same moment may also trip over each other in Spark 4.3 itself, while it serializes their first tasks. A
server that was killed between staging and commit has lost the batch, and says so. And a query does not survive the end
of the process that commits for it. In these cases the query is started again, as an operator would do.
"""

from collections.abc import Callable, Sequence

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

ATTEMPTS = 6
PATIENCE_S = 300


SPARKS_OWN = ("failed to connect back", "Task serialization failed: java.lang.IllegalStateException: Illegal size")


def is_sparks_own(failure: str) -> bool:
    """Whether a query failed for a reason of Spark's own."""
    return any(words in failure for words in SPARKS_OWN)


def may_be_started_again(failure: str) -> bool:
    """Whether a query failed for a reason of Spark's own, or because a server or the committing process was killed."""
    killed = ("stage the batch again", "Python worker exited unexpectedly")
    return is_sparks_own(failure) or any(words in failure for words in killed)


def run_to_the_end(start: Callable[[], Sequence[StreamingQuery]]) -> Sequence[StreamingQuery]:
    """Start queries that end by themselves, and return them when they have."""
    for _ in range(ATTEMPTS):
        queries = start()
        try:
            for query in queries:
                if not query.awaitTermination(PATIENCE_S):
                    raise AssertionError(f"a query has not ended after {PATIENCE_S} s: {query.status}")
        except PySparkException as failed:
            if not is_sparks_own(str(failed)):
                raise
        else:
            return queries
        finally:
            for query in queries:
                query.stop()
    raise AssertionError(f"Spark could not run its queries in {ATTEMPTS} attempts")


def start_running(start: Callable[[int], StreamingQuery]) -> StreamingQuery:
    """Start a query that goes on, and return it when it has done what there was to do; `start` gets the attempt."""
    for attempt in range(ATTEMPTS):
        query = start(attempt)
        try:
            query.processAllAvailable()
        except PySparkException as failed:
            query.stop()
            if not is_sparks_own(str(failed)):
                raise
        else:
            return query
    raise AssertionError(f"Spark could not run a query in {ATTEMPTS} attempts")
