"""Freeing large values beside the event loop, and giving the system its memory back.

    UNLINK, FLUSHALL ASYNC, a trim of millions, … ─► discard ─► a thread: a slice, a moment for others, a slice, …
                                                                  └─ some megabytes are free, and at the end:
                                                                     free pages go back

The type of a value decides how. The nodes of a stream are C memory, freed in one go without the interpreter's lock.
Python's objects are taken out of their container a slice at a time, so that the event loop waits for the lock no longer
than a slice takes. Only a value without other references is taken apart.

Most of what is freed on the event loop nobody counts: what a script had, pending records, watched keys, many small
values. So pages go back now and then, too, where commands have run (`return_now_and_then`): after ten seconds, or after
a thousand times as long as that took the last time.

The settings are Redis's (`lazyfree-lazy-*`). The thread ends when there was nothing to do for a while.
"""

import sys
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, Final

from headrace.engine.configuration.config import Config
from headrace.engine.process import return_free_memory, return_memory_as_it_frees

_SMALL: Final = 64  # elements that are freed at once: less work than to hand them over
_SLICE: Final = 256  # elements that are freed before others have their turn
_MUCH: Final = 10_000  # elements after which free pages are given back to the system
_SETTLING_S: Final = 0.05  # how long nothing must come before that is done
_IDLE_S: Final = 5.0  # how long the thread waits for more before it ends
_PATIENCE_MS: Final = 10_000  # between two times that pages are given back because some time is over …
_SHARE: Final = 1000  # … of which one of so many parts is spent on it, at most: the heap is locked meanwhile
_BUSY_TRIES: Final = 20  # how often another reference to a value is waited for

_ONLY_PAGES: Final = object()  # in the queue: there is nothing to free, but pages to give back


class Freeing:
    """See the module. Called by the thread that owns the engine."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.pending = 0
        self.freed = 0
        self._commands = 0  # that had run when pages were last given back because some time was over …
        self._patience_ms = _PATIENCE_MS
        self._due_ms: int | None = None  # … and when that is to be done again
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def discard(self, value: object, setting: str | None = None) -> None:
        """Free what a key held that is gone: beside the loop where it is large and the setting, if any, says so."""
        size = elements_of(value)
        if size <= _SMALL:
            return
        if setting is None or self._config[setting]:
            self.pending += 1
            self._put(value)
        elif size >= _MUCH:
            self._put(_ONLY_PAGES)

    def discard_keys(self, held: list[Any], *, beside: bool) -> None:
        """Free what held the keys of a database, and all their values."""
        values = held[0]
        if beside and len(values) > _SMALL:
            self.pending += len(held)
            while held:
                self._put(held.pop())
            return
        if beside:
            while values:
                _, value = values.popitem()
                self.discard(value)
        elif len(values) >= _MUCH or any(elements_of(value) >= _MUCH for value in values.values()):
            self.return_pages()

    def return_pages(self) -> None:
        """Have free pages given back to the system soon."""
        self._put(_ONLY_PAGES)

    def return_now_and_then(self, now_ms: int, commands: int) -> None:
        """Have free pages given back where some time is over and commands ran in it; the host says this often."""
        if self._due_ms is None:
            self._due_ms = now_ms + self._patience_ms
        if now_ms >= self._due_ms and commands != self._commands:
            self._commands = commands
            self._due_ms = now_ms + self._patience_ms
            self.return_pages()

    def _put(self, value: object) -> None:
        with self._starting:
            self._queue.put(value)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-freeing", daemon=True)
                self._thread.start()

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        return_memory_as_it_frees(wanted=True)
        much = 0
        while True:
            try:
                value = self._queue.get(timeout=_SETTLING_S if much >= _MUCH else _IDLE_S)
            except Empty:
                if much >= _MUCH:
                    much = 0
                    began = time.monotonic()
                    return_free_memory()
                    self._patience_ms = max(_PATIENCE_MS, round((time.monotonic() - began) * 1000 * _SHARE))
                    continue
                with self._starting:
                    if self._queue.empty():
                        return_memory_as_it_frees(wanted=False)
                        self._thread = None
                        return
                continue
            if value is _ONLY_PAGES:
                much = _MUCH
                continue
            much += elements_of(value)
            owned = [value]
            del value
            free_in_slices(owned)
            self.pending -= 1
            self.freed += 1


def elements_of(value: object) -> int:
    """How many elements a value has that were allocated on their own, about."""
    return 1 if isinstance(value, bytes) or not hasattr(value, "__len__") else len(value)


def free_in_slices(owned: list[Any]) -> None:
    """Free the one value in a list, letting other threads have their turn again and again."""
    for _ in range(_BUSY_TRIES):
        if sys.getrefcount(owned[0]) <= 2:  # the list's, and that of this call
            break
        time.sleep(0.001)
    else:
        owned.clear()  # somebody keeps it
        return
    value = owned.pop()
    if type(value) in (dict, set, list, deque):
        _empty(value)
        return
    parts = [[getattr(value, name)] for name in getattr(type(value), "__slots__", ())]
    del value  # a stream is freed here
    for part in parts:
        if type(part[0]) in (dict, set, list, deque) and sys.getrefcount(part[0]) <= 2:
            _empty(part.pop())


def _empty(container: Any) -> None:
    take = container.popitem if isinstance(container, dict) else container.pop
    while container:
        for _ in range(min(_SLICE, len(container))):
            element = take()
            if isinstance(container, dict):
                element = element[1]
            if not isinstance(element, bytes) and elements_of(element) > _SMALL:
                owned = [element]
                del element
                free_in_slices(owned)
        time.sleep(0)  # a thread that waits for the interpreter's lock gets it
