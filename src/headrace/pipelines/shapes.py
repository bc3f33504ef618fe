"""How an archive lies on disk: what a run asks for, and what is there already."""

from dataclasses import replace
from typing import Final, Literal

from pyspark.sql import types as t

from headrace.pipelines.errors import PipelineError
from headrace.spark.archive_log import ArchiveExtent, Shape
from headrace.spark.errors import BadSchema
from headrace.spark.parsing import supports

Layout = Literal["by-key", "by-date"]

LAYOUTS: Final[tuple[Layout, ...]] = ("by-key", "by-date")
_TAKEN: Final = frozenset({"stream", "id", "ms", "seq", "timestamp", "fields", "key", "date"})


def shape_of(extent: ArchiveExtent, keys: str, layout: str | None, schema: str | None, *, delta: bool = False) -> Shape:
    """Return the shape of an archive after a run; what is there stays as it is."""
    if layout is not None and layout not in LAYOUTS:
        raise PipelineError(f"the layout {layout!r} is none of {', '.join(LAYOUTS)}")
    if delta and layout == "by-key":
        raise PipelineError("a Delta table has the layout by-date: its log says what is in each file")
    shape = replace(extent.shape, keys=keys)
    if extent.batch < 0:
        shape = replace(shape, layout="by-date" if delta else layout or "by-key")
    elif layout is not None and layout != shape.layout:
        raise PipelineError(f"the archive has the layout {shape.layout}, which cannot be changed to {layout}")
    if schema is None:
        return shape
    wanted = typed_columns(schema)
    known = {field.name: field for field in typed_columns(shape.columns)}
    for field in wanted:
        before = known.setdefault(field.name, field)
        if before.dataType != field.dataType:
            raise PipelineError(
                f"the archive has the column {field.name!r} as {before.dataType.simpleString()}, and it cannot become "
                f"{field.dataType.simpleString()}"
            )
    columns = ", ".join(f"`{name}` {field.dataType.simpleString()}" for name, field in known.items())
    return replace(shape, columns=columns)


def typed_columns(ddl: str) -> t.StructType:
    """Return typed columns beside the fields; none for an empty text."""
    if not ddl:
        return t.StructType()
    found = t.StructType.fromDDL(ddl)
    assert isinstance(found, t.StructType)  # noqa: S101  (a list of columns is one)
    for field in found:
        if field.name.lower() in _TAKEN or field.name.startswith("_"):
            raise BadSchema(f"column {field.name!r} cannot be a field's: the archive has a column of that name")
        if not supports(field.dataType):
            raise BadSchema(f"column {field.name!r} is {field.dataType.simpleString()}, which no field can be read as")
    return found
