"""The thread that keeps time for an engine in process, which has no event loop.

    disk       what the journal's worker has written and synced: replies that waited for it are delivered
    alarms     the deadlines of blocked readers, the end of a pause
    ticks      `hz` times a second: expiry, syncs under everysec, save points, rewrites, memory

It sleeps until one of these is due, and is woken when an alarm is set that is earlier than what it sleeps for.
"""

import logging
import os
import select
import threading
import time
from contextlib import suppress
from typing import Final

from headrace.api.errors import DatabaseClosed
from headrace.embedded.host import Host
from headrace.engine.process import resident_bytes, return_free_memory

_FREEING_S: Final = 1.0  # how long at least between two attempts to give memory back

_log = logging.getLogger("headrace")


class Maintenance:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = host.engine.config
        self._stopping = False
        self._freed = 0.0
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        os.set_blocking(self._woken, False)
        self._thread = threading.Thread(target=self._run, name="headrace-keeper", daemon=True)
        host.wake = self._wake
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended."""
        self._stopping = True
        self._wake()
        self._thread.join()
        self._host.wake = None
        os.close(self._woken)
        os.close(self._waking)

    def _wake(self) -> None:
        if threading.current_thread() is not self._thread:  # which looks at its plans before it sleeps, anyway
            with suppress(BlockingIOError):
                os.write(self._waking, b"!")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        disk = self._host.journal.fileno if self._host.store is not None else -1
        if disk >= 0:
            poll.register(disk, select.POLLIN)
        next_tick = time.monotonic()
        while not self._stopping:
            ready = {file for file, _ in poll.poll(self._patience_ms(next_tick))}
            if self._woken in ready:
                os.read(self._woken, 4096)
            now = time.monotonic()
            tick = now >= next_tick
            if tick:
                next_tick = now + 1 / self._config["hz"]
            try:
                self._host.turn(disk=disk in ready, tick=tick)
                if tick:
                    self._check_memory(now)
            except DatabaseClosed:
                return
            except Exception:  # noqa: BLE001 — told, and the next turn may go well
                _log.exception("The maintenance thread of a database met an error of ours: please report this.")

    def _patience_ms(self, next_tick: float) -> float:
        """How long nothing will be due."""
        patience = (next_tick - time.monotonic()) * 1000
        alarm_ms = self._host.alarm_ms
        if alarm_ms:
            patience = min(patience, alarm_ms + 1 - self._host.engine.clocks.steady_ms())
        return max(patience, 0)

    def _check_memory(self, now: float) -> None:
        engine, store = self._host.engine, self._host.store
        engine.freeing.return_now_and_then(engine.clocks.steady_now_ms, engine.stats.commands)
        if store is not None and store.offloading.is_on:
            self._host.engine.refusals.over_memory = store.offloading.is_full
            return
        limit = self._config["maxmemory"]
        over = bool(limit) and resident_bytes() > limit
        if over and now - self._freed >= _FREEING_S:
            self._freed = now
            return_free_memory()
            over = resident_bytes() > limit
        self._host.engine.refusals.over_memory = over
