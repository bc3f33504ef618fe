"""Which task reads what: slices of streams, cut and put together so that tasks are even.

    orders   ├──────────────┤──────────────┤     long streams are cut
    clicks   ├──────────────┤
    a, b, c  ├──┤ ├─┤ ├────┤                    short ones share a task

The file of an archive is read by one task.

The number of tasks is what `minPartitions` and `entriesPerPartition` ask for, and otherwise one for each 10,000 entries
up to the number of processors: a task costs some 50 ms, in which 10,000 entries are read.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from headrace.spark.connecting import Readable
from headrace.spark.options import ReadOptions
from headrace.spark.streams import AnySlice, ArchivedSlice

_WORTH_A_TASK: Final = 10_000


@dataclass
class SlicesPartition(InputPartition):
    """The part that one task reads."""

    slices: tuple[AnySlice, ...]


def plan_partitions(slices: list[AnySlice], options: ReadOptions, readable: Readable) -> list[SlicesPartition]:
    """Make tasks of slices."""
    total = sum(part.entries for part in slices)
    if not slices or not total:
        return [SlicesPartition(tuple(slices))] if slices else []
    wanted = max(
        options.min_partitions or min(os.cpu_count() or 1, -(-total // _WORTH_A_TASK)),
        -(-total // options.entries_per_partition),
    )
    share = max(1, -(-total // wanted))
    cut: list[AnySlice] = []
    for part in slices:
        parts = -(-part.entries // share)
        if parts > 1 and not isinstance(part, ArchivedSlice):
            cut += readable.transport(part.server).split(part, parts)
        else:
            cut.append(part)
    return list(_put_together(cut, share))


def _put_together(slices: list[AnySlice], share: int) -> Iterable[SlicesPartition]:
    together: list[AnySlice] = []
    entries = 0
    for part in slices:
        if together and entries + part.entries > share:
            yield SlicesPartition(tuple(together))
            together, entries = [], 0
        together.append(part)
        entries += part.entries
    if together:
        yield SlicesPartition(tuple(together))
