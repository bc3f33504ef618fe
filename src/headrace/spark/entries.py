"""From the entries of an XRANGE reply to raw columns."""

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from headrace.spark.projection import Projection, RawColumns


def raw_columns(entries: Sequence[tuple[bytes, list[bytes]]], projection: Projection) -> RawColumns:
    """Take the columns that a projection asks for out of entries."""
    ids = [entry[0].split(b"-") for entry in entries]
    flat = [entry[1] for entry in entries]
    values: list[pa.Array] = []
    if projection.field_names:
        records = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in flat]
        values = [pa.array([record.get(name) for record in records], pa.binary()) for name in projection.field_names]
    offsets = names = items = None
    if projection.wants_fields:
        ends = [0]
        for pairs in flat:
            ends.append(ends[-1] + len(pairs) // 2)
        offsets = pa.array(ends, pa.int32())
        names = pa.array(chain.from_iterable(pairs[::2] for pairs in flat), pa.binary())
        items = pa.array(chain.from_iterable(pairs[1::2] for pairs in flat), pa.binary())
    return RawColumns(
        ms=pa.array([int(id[0]) for id in ids], pa.uint64()),
        seq=pa.array([int(id[1]) for id in ids], pa.uint64()),
        values=values,
        offsets=offsets,
        names=names,
        items=items,
    )
