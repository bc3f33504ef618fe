"""Entries that a query had still to read and that are gone: noticed, counted, and told as `failOnDataLoss` says.

Trimming takes entries from the front. Where the first entry lies behind the position of a query, everything up to that
position is gone, and a stream that removed more than those has removed unread ones:

    added up to the position  ├───────────┤
    removed until now         ├──────────────────┤
                                          └ lost ┘   unless single entries behind the position were deleted: those were
                                                     meant to go, and how many of the others went is not known
"""

import logging

from headrace.spark.errors import DataLost
from headrace.spark.offsets import Mark
from headrace.spark.streams import StreamState

_LOG = logging.getLogger("headrace.spark")


def lost_between(start: Mark, end: Mark, state: StreamState | None) -> int | None:
    """Count the entries from `start` to `end` that are certainly gone; None: some are, nobody knows how many."""
    if state is None or not end.belongs_to(state):
        return end.added - start.added if start.added is not None and end.added is not None else None
    if start.added is None or start.life != end.life or state.max_deleted_id > start.id:
        return 0
    if state.first_id is not None and state.first_id <= start.id:
        return 0
    lost = max(0, state.removed - start.added)
    return lost if end.added is None else min(lost, end.added - start.added)


def report_loss(lost: int | None, key: bytes, start: Mark, *, fail: bool) -> None:
    """Raise, or warn, when entries were lost."""
    if lost == 0:
        return
    many = "entries were" if lost is None else f"{lost} entries were" if lost > 1 else "1 entry was"
    told = (
        f"{many} trimmed or deleted from stream {key.decode(errors='backslashreplace')!r} after "
        f"{bytes(start.id).decode()} before the query had read them"
    )
    if fail:
        raise DataLost(
            f"option 'failOnDataLoss' is 'true': {told}; set it to false to go on with what is there, and option group "
            "with XTRIM … ACKED to keep what is unread"
        )
    _LOG.warning("%s", told)
