"""How long another client waits for the server while Spark works: a bystander's XADD, again and again.

    together    server, bystander and Spark share all cores
    apart       server and bystander have a core of their own: what they wait for is the server, not a processor

The bystander is a process of its own, which does nothing but ask and wait, so that no other thread delays it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.harness import fresh
from headrace.measuring.targets import packed

REQUESTS = 3000
PAUSE = 0.001


def bystand(port: int, meanwhile: Callable[[], object] | None, core: int | None = None) -> list[float]:
    """Return the seconds that each of many commands took, sorted, while something else goes on again and again."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            meanwhile()  # type: ignore[misc]

    worker = threading.Thread(target=repeat)
    if meanwhile is not None:
        worker.start()
        time.sleep(1)
    try:
        return fresh(ask, port, core)
    finally:
        over.set()
        if meanwhile is not None:
            worker.join()


def ask(port: int, core: int | None) -> list[float]:
    """Be the bystander."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    request = packed(b"XADD", b"bystander", b"MAXLEN", b"1000", b"*", b"n", b"1")
    took = []
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(REQUESTS):
            start = time.perf_counter()
            line.sendall(request)
            line.recv(1024)
            took.append(time.perf_counter() - start)
            time.sleep(PAUSE)
    return sorted(took)


@contextmanager
def apart(server: int) -> Iterator[int]:
    """Give the server one core and everything else below this process the others; yields the server's core."""
    cores = os.sched_getaffinity(0)
    own = min(cores)
    below = [pid for pid in processes_below(os.getpid()) if pid != server]
    try:
        _put([server], {own})
        _put([os.getpid(), *below], cores - {own})
        yield own
    finally:
        _put([os.getpid(), server, *processes_below(os.getpid())], cores)


def _put(pids: list[int], cores: set[int]) -> None:
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):
                os.sched_setaffinity(int(task.name), cores)


def processes_below(ancestor: int) -> list[int]:
    """Return the processes that one has started, and those that these have, and so on."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text("ascii", "replace").rpartition(")")[2].split()[1])

    def is_below(pid: int) -> bool:
        while pid in parents and pid != ancestor:
            pid = parents[pid]
        return pid == ancestor

    return [pid for pid in parents if pid != ancestor and is_below(pid)]
