"""What the tasks of an archive do: slices of streams in, files out. Nothing passes through Java.

slice ─► nodes of the stream ─► Arrow ─► Parquet
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.pipelines.archive_files import ArchiveFiles
from headrace.pipelines.layout import SOURCE_SCHEMA
from headrace.pipelines.shapes import typed_columns
from headrace.pipelines.tasks import run_tasks
from headrace.spark.archive_log import ArchivedFile, Span
from headrace.spark.planning import SlicesPartition
from headrace.spark.slice_reader import SliceReader


@dataclass(frozen=True)
class FilesOf:
    """How the files of an archive are written. Pickled to tasks."""

    path: str
    layout: str
    schema: pa.Schema
    """Of the entries, as the files have them: the stream, the ID, …, the fields, and typed columns."""


def source_schema(columns: str) -> t.StructType:
    """Return what is read of streams for an archive with typed columns."""
    return t.StructType([*SOURCE_SCHEMA.fields, *typed_columns(columns).fields])


def file_schema(columns: str) -> pa.Schema:
    """Return the same as files have it."""
    found = to_arrow_schema(source_schema(columns), timezone="UTC")
    names = [{"_key": "stream"}.get(name, name.removeprefix("_")) for name in found.names[:6]]
    return pa.schema([field.with_name(name) for field, name in zip(found, [*names, *found.names[6:]], strict=True)])


def write_batch(
    spark: SparkSession, reader: SliceReader, partitions: Sequence[SlicesPartition], how: FilesOf
) -> list[ArchivedFile]:
    """Write the entries of partitions, and return the files."""

    def work(number: int) -> str:
        return told_of(write_partition(reader, partitions[number], how))

    told = run_tasks(spark, work, len(partitions))
    return [file for text in told for file in files_told(text)]


def write_partition(reader: SliceReader, partition: SlicesPartition, how: FilesOf) -> list[ArchivedFile]:
    """Write the entries of a partition, as a task does."""
    files = ArchiveFiles(how.path, how.schema, how.layout)
    # A file has its streams in order: where there are several servers, the slices may not be.
    slices = sorted(partition.slices, key=lambda part: (part.key, part.first))
    for part, batch in reader.read_apart(SlicesPartition(tuple(slices))):
        files.add(part.key, pa.Table.from_batches([batch]).rename_columns(how.schema.names))
    return files.finish()


def told_of(files: Sequence[ArchivedFile]) -> str:
    """Return files as a text."""
    return json.dumps(
        [
            (file.path, file.size, file.label, file.date, None if file.span is None else file.span.to_json())
            for file in files
        ]
    )


def files_told(text: str) -> list[ArchivedFile]:
    """Read it back."""
    return [
        ArchivedFile(path, size, label, date, None if span is None else Span.from_json(span))
        for path, size, label, date, span in json.loads(text)
    ]
