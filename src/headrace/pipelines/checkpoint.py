"""How far a query's checkpoint says that it has come.

    checkpoint/offsets/7   v1, settings, one line of JSON for each source       written before batch 7
    checkpoint/commits/7   v1, {…}                                              written when batch 7 counts

The greatest batch that both have counts. The files are read through Spark, wherever they are.
"""

import json
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.pipelines.errors import PipelineError
from headrace.spark.offsets import Mark, StreamKey, from_json

_CHECKPOINT: Final = "_checkpoint"
_NO_OFFSET: Final = "-"


def committed_marks(spark: SparkSession, checkpoint: str) -> dict[StreamKey, Mark]:
    """Return how far each stream is committed, by the place of its server and its key; nothing where nothing is."""
    files = read_texts(spark, checkpoint, "offsets", "commits")
    done = [batch for kind, batch in files if kind == "commits" and ("offsets", batch) in files]
    if not done:
        return {}
    lines = files["offsets", max(done)].splitlines()
    if len(lines) < 3 or not lines[2].startswith("{"):
        raise PipelineError(f"the checkpoint {checkpoint} is in a form that this version does not read")
    marks: dict[StreamKey, Mark] = {}
    for line in lines[2:]:
        if line.strip() != _NO_OFFSET:
            marks.update(from_json(json.loads(line)))
    return marks


def marks_beside(spark: SparkSession, path: str, given: str | None = None) -> dict[StreamKey, Mark]:
    """Return the marks of an archive; nothing where it came without its checkpoint, unless one is `given`."""
    try:
        return committed_marks(spark, given or checkpoint_of(path))
    except AnalysisException:
        if given is not None:
            raise PipelineError(f"there is no checkpoint at {given!r}") from None
        return {}


def checkpoint_of(path: str) -> str:
    """Return where an archive keeps its checkpoint by default."""
    return f"{path.rstrip('/')}/{_CHECKPOINT}"


def read_texts(spark: SparkSession, checkpoint: str, *kinds: str) -> dict[tuple[str, int], str]:
    """Return the texts of a checkpoint's logs, by kind and batch."""
    frame = (
        spark.read.option("wholetext", True)
        .option("ignoreMissingFiles", True)  # a running query forgets its oldest batches
        .option("pathGlobFilter", "[0-9]*")
        .option("recursiveFileLookup", True)
        .schema("value string")
        .format("text")
        .load(checkpoint)
        .selectExpr("_metadata.file_path AS path", "value")
    )
    wanted = frame.where(" OR ".join(f"path LIKE '%/{kind}/%'" for kind in kinds))
    texts: dict[tuple[str, int], str] = {}
    for row in wanted.collect():
        kind, name = row["path"].split("/")[-2:]
        if kind in kinds and name.isdigit():
            texts[kind, int(name)] = row["value"]
    return texts
