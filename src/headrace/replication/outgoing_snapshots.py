"""Snapshots that are written for others and sent over their connections.

    asked for ─► waits until no other child is at work, and a moment for others who may ask for the same
              ─► a child writes a file of the moment of its fork, for all who wait for the same
              ─► each reads it as fast as its connection takes it, while it is still being written, or once it is whole

The file loses its name as soon as every receiver has it open, so that nothing is left of it, whatever happens.
"""

from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, Protocol

from headrace.engine.hooks import EVERYTHING, SnapshotParts
from headrace.storage.child import Outcome
from headrace.storage.children import Task
from headrace.storage.disk import Disk
from headrace.storage.log import Log
from headrace.storage.store import Store

_KEEPALIVE_S: Final = 1.0
_LARGE: Final = 16 << 20  # bytes


class SnapshotKind(NamedTuple):
    """What a snapshot has, and which servers can read it: a value of rdb-compatibility-version."""

    parts: SnapshotParts = EVERYTHING
    compatibility: str = "auto"


class SnapshotFile:
    """A file that one receiver reads, perhaps while it is still written."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._file = disk.open_to_read(path)
        self._path = path
        self.is_whole = False
        self.failed = False
        self.size = 0  # bytes, once it is whole

    def finish(self) -> None:
        """Note that nothing more will be written to it."""
        self.size = self._disk.size(self._path)
        self.is_whole = True

    def read(self, size: int) -> bytes:
        """Read the next bytes, at most so many; none at the end, or where there are none yet."""
        return self._disk.read_next(self._file, size)

    def close(self) -> None:
        """Read no more of it."""
        if self.size > _LARGE:
            self._disk.close_removed(self._file)
        else:
            self._disk.close(self._file)


class Receiver(Protocol):
    """A receiver of a snapshot."""

    @property
    def is_there(self) -> bool:
        """Whether its connection still is."""

    @property
    def reads_early(self) -> bool:
        """Whether it takes a snapshot that is still being written."""

    def begun(self) -> None:
        """Note that the snapshot is of this moment."""

    def keep_alive(self) -> None:
        """Send a sign of life."""

    def opened(self, file: SnapshotFile) -> None:
        """Read the file."""

    def failed(self, reason: str) -> None:
        """Note that there will be no snapshot."""


class OutgoingSnapshots:
    """The receivers that wait for a snapshot, and the snapshot that is being written."""

    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log
        self._disk = store.directory.disk
        self._waiting: dict[Receiver, SnapshotKind] = {}
        self._since = 0.0  # monotonic: when the first of them came
        self._receivers: list[Receiver] = []  # of the snapshot that is being written
        self._files: list[SnapshotFile] = []  # that some of them have open
        self._path: Path | None = None  # of that snapshot
        self._kept_alive = 0.0

    def add(self, receiver: Receiver, kind: SnapshotKind) -> None:
        """Have a snapshot written for a receiver."""
        if not self._waiting:
            self._since = monotonic()
        self._waiting[receiver] = kind

    def tick(self) -> None:
        """Begin to write what is waited for, and let receivers know that they are not forgotten."""
        self._waiting = {receiver: kind for receiver, kind in self._waiting.items() if receiver.is_there}
        if self._receivers and not any(receiver.is_there for receiver in self._receivers):
            self._log.warning("Nobody waits any more for the snapshot that is being written: it is given up.")
            self._store.children.kill(Task.COPY)
            self._end()
        if self._waiting and self._store.children.is_idle and self._have_gathered():
            self._start()
        self._open_early()
        if monotonic() - self._kept_alive >= _KEEPALIVE_S:
            self._kept_alive = monotonic()
            for receiver in (*self._waiting, *self._receivers):
                receiver.keep_alive()

    def _have_gathered(self) -> bool:
        """Whether others had time to ask for the same snapshot: those that read early have to begin together."""
        config = self._store.config
        early = sum(receiver.reads_early for receiver in self._waiting)
        most = config["repl-diskless-sync-max-replicas"]
        return (
            early < len(self._waiting)
            or (most > 0 and early >= most)
            or monotonic() - self._since >= config["repl-diskless-sync-delay"]
        )

    def _start(self) -> None:
        kind = next(iter(self._waiting.values()))
        self._receivers = [receiver for receiver, wanted in self._waiting.items() if wanted == kind]
        for receiver in self._receivers:
            del self._waiting[receiver]
            receiver.begun()
        try:
            self._path = self._store.start_copying(kind.parts, kind.compatibility, self._written)
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _open_early(self) -> None:
        """Let receivers read that do not need to know how long the snapshot will be."""
        if self._path is None or self._files or not self._disk.exists(self._path):
            return
        try:
            for receiver in self._receivers:
                if receiver.is_there and receiver.reads_early:
                    self._open(receiver, self._path, whole=False)
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _open(self, receiver: Receiver, path: Path, *, whole: bool) -> None:
        file = SnapshotFile(self._disk, path)
        if whole:
            file.finish()
        else:
            self._files.append(file)
        receiver.opened(file)

    def _written(self, outcome: Outcome) -> None:
        if outcome.error or self._path is None:
            self._fail(outcome.error)
            return
        try:
            for file in self._files:
                file.finish()
            for receiver in self._receivers:
                if receiver.is_there and not (self._files and receiver.reads_early):
                    self._open(receiver, self._path, whole=True)
        except OSError as error:
            self._fail(error.strerror or str(error))
        else:
            self._end()

    def _fail(self, reason: str) -> None:
        """Tell the receivers that get no file."""
        self._log.warning(f"A snapshot for others could not be written: {reason}.")
        for file in self._files:
            file.failed = True
        receivers = self._receivers
        self._end()
        for receiver in receivers:
            if receiver.is_there:
                receiver.failed(reason)

    def _end(self) -> None:
        """Forget the snapshot, and take the name of its file away, where the child has left one."""
        self._receivers = []
        self._files = []
        path, self._path = self._path, None
        try:
            if path is not None and self._disk.exists(path):
                self._disk.unlink(path)
        except OSError as error:
            self._log.warning(f"The temporary file {path} could not be removed: {error.strerror or error}.")
