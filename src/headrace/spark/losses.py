"""Entries that are gone before a query has read them: noticed, counted, and reported as `failOnDataLoss` says.

Trimming takes entries from the front. Where the first entry lies behind the position of a query, everything up to that
position is gone, and a stream that removed more than those has removed unread ones:

    added up to the position  ├───────────┤
    removed until now         ├──────────────────┤
                                          └ lost ┘   unless single entries behind the position were deleted: somebody
                                                     meant to delete those, and nobody knows how many others went

This is checked twice: when a batch is planned, and by each task with every chunk that it reads, because trimming may
overtake it.
"""

import logging

from headrace.core.stream_id import StreamID
from headrace.spark.errors import DataLost
from headrace.spark.offsets import Mark
from headrace.spark.streams import Slice, StreamState

_LOG = logging.getLogger("headrace.spark")


def lost_between(start: Mark, end: Mark, state: StreamState) -> int:
    """Count the entries from `start` to `end` that were certainly trimmed from the stream that both belong to."""
    if start.added is None or start.life != end.life or state.max_deleted_id > start.id:
        return 0
    if state.first_id is not None and state.first_id <= start.id:
        return 0
    lost = max(0, state.removed - start.added)
    return lost if end.added is None else min(lost, end.added - start.added)


def report_loss(lost: int | None, key: bytes, where: str, *, fail: bool, how: str = "trimmed or deleted from") -> None:
    """Raise, or warn, when entries were lost (None: nobody knows how many); `where` says after which ID."""
    if lost == 0:
        return
    many = "entries were" if lost is None else f"{lost} entries were" if lost > 1 else "1 entry was"
    told = f"{many} {how} stream {_shown(key)} {where} before the query had read them"
    if fail:
        raise DataLost(
            f"option 'failOnDataLoss' is 'true': {told}; set it to false to go on with what is there, and option group "
            "with XTRIM … ACKED to keep what is unread"
        )
    _LOG.warning("%s", told)


def report_new_life(key: bytes, id: StreamID) -> None:
    """Report that a stream was deleted and made anew, and that no entry of it is known to be lost."""
    _LOG.warning(
        "stream %s was deleted and made anew: it is read from its beginning. The old one was read up to %s; whether it "
        "got entries after that, before it was deleted, is not known",
        _shown(key),
        id,
    )


def _shown(key: bytes) -> str:
    return repr(key.decode(errors="backslashreplace"))


class LossWatch:
    """Watches the stream of a slice while a task reads it: `look` with each chunk, `count` what the chunk had.

    A loss has no count where it is not known how many entries lay before the slice: only the first slice of a stream
    knows that. A stream that never changes is not checked.
    """

    def __init__(self, part: Slice, *, fail: bool, exact: bool = True) -> None:
        self._key = part.key
        self._fail = fail
        self._planned = part.planned
        self._before = part.before if exact else None

    def look(self, start: StreamID, state: StreamState | None) -> bool:
        """Compare the stream with the plan; the entries from `start` on were read just before this state of the stream.

        False: they are, or may be, entries of another stream, and there is nothing more to read.
        """
        planned = self._planned
        if planned is None or (state is not None and self._intact(start, planned, state)):
            return True
        if state is None or not planned.may_become(state):
            report_loss(None, self._key, f"from {start} on", fail=self._fail, how="deleted with")
            return False
        lost = None if self._before is None else max(0, state.removed - planned.removed - self._before)
        self._planned, self._before = state, 0
        report_loss(lost, self._key, f"from {start} on", fail=self._fail)
        return True

    def is_ahead_of(self, state: StreamState | None) -> bool:
        """Whether the plan has seen more of the stream than a server has that should have the same."""
        return self._planned is not None and (state is None or not self._planned.may_become(state))

    def count(self, entries: int) -> None:
        """Remember how many entries of the slice were read."""
        if self._before is not None:
            self._before += entries

    @staticmethod
    def _intact(start: StreamID, planned: StreamState, state: StreamState) -> bool:
        """Whether nothing from `start` on can have been trimmed."""
        if not planned.may_become(state):
            return False
        if state.first_id is not None and state.first_id <= start:
            return True
        unchanged = state.removed == planned.removed and state.first_id == planned.first_id
        return unchanged or state.max_deleted_id >= start


class OvertakenWatch(LossWatch):
    """Ends the reading where entries may have been trimmed, instead of reporting them: an archive may have them."""

    def __init__(self, part: Slice) -> None:
        super().__init__(part, fail=True)
        self.overtaken_at: StreamID | None = None
        """From here on nothing was read; None: everything was."""

    def look(self, start: StreamID, state: StreamState | None) -> bool:
        """Compare the stream with the plan."""
        planned = self._planned
        assert planned is not None  # noqa: S101  (only streams of a server are watched for this)
        if state is not None and planned.may_become(state):
            if state.first_id is not None and state.first_id <= start:
                return True
            if state.removed == planned.removed and state.first_id == planned.first_id:
                return True
        self.overtaken_at = start
        return False
