"""How far an archive says that it has come."""

from headrace.pipelines.errors import PipelineError
from headrace.spark.delta_log import open_log
from headrace.spark.errors import UnreadableArchive
from headrace.spark.offsets import Mark, StreamKey


def marks_beside(path: str, given: str | None = None) -> dict[StreamKey, Mark]:
    """Return the marks of an archive; nothing where it came without its checkpoint, unless one is `given`."""
    try:
        return dict(open_log(path, given).extent().marks)
    except UnreadableArchive as error:
        if given is not None:
            raise PipelineError(str(error)) from None
        return {}
