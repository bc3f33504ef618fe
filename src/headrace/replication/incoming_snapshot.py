"""The snapshot that a master sends, on its way into a file.

    $<size> CR LF, the bytes                    a master that wrote it to disk first
    $EOF:<mark> CR LF, the bytes, the mark      one that sends it while it is made; the mark has 40 bytes

A thread writes and syncs the file, so that the event loop goes on. Nothing is read ahead of the disk by more than a
block. A snapshot that does not become complete is removed, when the thread has done what it does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from headrace.core.errors import HeadraceError
from headrace.storage.disk import Disk

_BLOCK: Final = 1 << 20  # bytes that are written at once
_SYNC_EVERY: Final = 32 << 20  # bytes, so that the last sync has little to do
_EOF: Final = b"$EOF:"
_MARK_SIZE: Final = 40
_SIZE_DIGITS: Final = 18


class BadSnapshot(HeadraceError):
    """The bytes are no snapshot, or not all of one; the text says what is wrong, without naming the master."""


class IncomingSnapshot:
    """Receives one snapshot; `size` is -1 where only its end will tell."""

    def __init__(self, header: bytes, disk: Disk, path: Path) -> None:
        self.path = path
        self.received = 0  # bytes
        self.size, self._mark = _read_header(header)
        self._disk = disk
        self._thread = ThreadPoolExecutor(1, "headrace-snapshot")
        self._file: int | None = None
        self._unsynced = 0

    async def receive(self, read: Callable[[int], Awaitable[bytes]]) -> bytes:
        """Write what comes to the file, and sync it; return what came behind the snapshot.

        `read` gives at most so many bytes, and none at the end of the connection. An OSError: the disk refuses it.
        """
        await self._do(self._create)
        rest = await (self._receive_sized(read) if self._mark is None else self._receive_marked(read, self._mark))
        await self._do(self._sync_and_close)
        return rest

    def discard(self) -> None:
        """Remove what there is of the file; it may have another name by now, and then stays."""
        self._thread.submit(self._remove)
        self._thread.shutdown(wait=False)

    async def _receive_sized(self, read: Callable[[int], Awaitable[bytes]]) -> bytes:
        while self.received < self.size:
            await self._take(await read(min(_BLOCK, self.size - self.received)))
        return b""

    async def _receive_marked(self, read: Callable[[int], Awaitable[bytes]], mark: bytes) -> bytes:
        """Look for the mark in what has come; its beginning may have come with the piece before."""
        held = b""
        while True:
            data = await read(_BLOCK)
            if not data:
                self._refuse_end()
            held += data
            end = held.find(mark)
            if end >= 0:
                await self._take(held[:end])
                self.size = self.received
                return held[end + _MARK_SIZE :]
            safe = max(len(held) - _MARK_SIZE + 1, 0)
            if safe:
                await self._take(held[:safe])
                held = held[safe:]

    async def _take(self, data: bytes) -> None:
        if not data and self.received != self.size and self._mark is None:
            self._refuse_end()
        await self._do(lambda: self._append(data))
        self.received += len(data)

    def _refuse_end(self) -> NoReturn:
        of = f" of {self.size}" if self.size >= 0 else ""
        raise BadSnapshot(f"the connection ended after {self.received}{of} bytes of the snapshot")

    # --- the thread ------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], None]) -> None:
        await asyncio.wrap_future(self._thread.submit(work))

    def _create(self) -> None:
        self._file = self._disk.create(self.path, replace=True)

    def _append(self, data: bytes) -> None:
        if self._file is None:
            return
        self._disk.append(self._file, data)
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_EVERY:
            self._disk.sync(self._file)
            self._unsynced = 0

    def _sync_and_close(self) -> None:
        if self._file is not None:
            self._disk.sync(self._file)
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._disk.close(file)

    def _remove(self) -> None:
        with suppress(OSError):
            self._close()
            if self._disk.exists(self.path):
                self._disk.unlink(self.path)


def _read_header(header: bytes) -> tuple[int, bytes | None]:
    """Read the line before a snapshot: its size, or the mark at its end."""
    if header.startswith(_EOF) and len(header) == len(_EOF) + _MARK_SIZE:
        return -1, header[len(_EOF) :]
    digits = header[1:]
    if header.startswith(b"$") and digits.isdigit() and len(digits) <= _SIZE_DIGITS:
        return int(digits), None
    raise BadSnapshot(f"expected the size of a snapshot, found {header[:80]!r}")
