"""Which kind of archive is at a path, or is to be."""

from typing import Final, Literal

from headrace.pipelines.errors import NoArchive, PipelineError
from headrace.pipelines.lake import Lake
from headrace.spark.delta_log import is_delta
from headrace.spark.errors import UnreadableArchive

Table = Literal["parquet", "delta"]

TABLES: Final[tuple[Table, ...]] = ("parquet", "delta")


def open_lake(path: str, checkpoint: str | None = None, table: str | None = None) -> Lake:
    """Return the archive at a path; a new one is a `table` of that kind, or Parquet."""
    if table is not None and table not in TABLES:
        raise PipelineError(f"the table {table!r} is none of {', '.join(TABLES)}")
    delta = is_delta(path)
    if not delta:
        lake = Lake(path, checkpoint)
        if table != "delta":
            return lake
        if lake.extent().batch >= 0:
            raise PipelineError(f"the archive {path!r} is one of Parquet files alone, and cannot become a Delta table")
    elif table == "parquet":
        raise PipelineError(f"the archive {path!r} is a Delta table, and cannot become one of Parquet files alone")
    try:
        from headrace.pipelines.delta_lake import DeltaLake  # noqa: PLC0415  (deltalake is an extra)
    except ImportError as error:
        if "deltalake" not in str(error):
            raise
        raise PipelineError("a Delta table needs deltalake: pip install 'headrace[delta]'") from None
    return DeltaLake(path)


def existing_lake(path: str) -> Lake:
    """Return the archive at a path; raises NoArchive where there is none."""
    lake = open_lake(path)
    try:
        lake.existing()
    except UnreadableArchive as error:
        raise NoArchive(str(error)) from None
    return lake
