"""Where an archive ends, for a query that goes on from there, and which of its files count."""

import json

from headrace.pipelines.errors import NoArchive, PipelineError
from headrace.spark.delta_log import open_log
from headrace.spark.errors import UnreadableArchive


def positions(path: str, checkpoint: str | None = None) -> str:
    """Return the position behind the last archived entry of each stream, as JSON for the option `startingId`.

    A stream that was deleted, when the archive saw it last, begins anew: `earliest`. `checkpoint` is that of the
    archive, where it is not in the archive's own directory. No Spark is needed.
    """
    try:
        marks = open_log(path, checkpoint).extent().marks
    except UnreadableArchive as error:
        raise NoArchive(str(error)) from None
    found: dict[str, str] = {}
    for (_, key), mark in sorted(marks.items()):
        name = key.decode(errors="surrogateescape")
        if name in found:
            raise PipelineError(
                f"the archive {path!r} has the stream {name!r} of several servers, and one position cannot be both"
            )
        found[name] = "earliest" if mark.gone else f"({mark.id}"
    return json.dumps(found)


def files(path: str) -> list[str]:
    """Return the files of an archive that count, for programs that read Parquet and know nothing of archives."""
    log = open_log(path)
    try:
        return [log.located(file.path) for file in log.extent().files]
    except UnreadableArchive as error:
        raise NoArchive(str(error)) from None
