"""Ranges of time as a person gives them, as IDs and as milliseconds."""

from headrace.core.stream_id import StreamID
from headrace.pipelines.errors import PipelineError
from headrace.spark.errors import BadOption
from headrace.spark.options import read_options


def id_range(start: str | None, end: str | None) -> tuple[StreamID | None, StreamID | None]:
    """Return the first and the last ID from one time on and before another; None: no limit.

    A time is ISO 8601, in UTC where it names no zone, or milliseconds since 1970.
    """
    ids: list[StreamID | None] = []
    for name, option, text in (("from", "startingTimestamp", start), ("to", "endingTimestamp", end)):
        if text is None:
            ids.append(None)
            continue
        try:
            options = read_options({"keys": "*", option: text}, streaming=False)
        except BadOption as refused:
            raise PipelineError(str(refused).replace(f"option {option!r}", f"the time {name!r}")) from None
        found = (options.starting if name == "from" else options.ending).everywhere
        ids.append(found if isinstance(found, StreamID) else None)
    return ids[0], ids[1]
