"""The moment to kill the server: when its journal has messages that no device was told of.

    stop it                  the devices continue: each sends what is due, and waits for its answers
    resume it                it takes what has come, and writes it to its journal
    stop it after the write  the answers wait for the disk, and are not sent yet
    look                     does the journal have more than was acknowledged? kill it; else resume it and try again

A real crash may come at this moment, but the moment is short, and the demo kills the server only once. The devices then
send the messages again, and the server has to recognise them.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.demo.plan import PRODUCER

_TRIES: Final = 50
_GATHER_S: Final = 0.1  # that the server is stopped, while the devices send
_WRITE_S: Final = 1.0  # within which it writes when it goes on
_HEARD_S: Final = 0.05  # in which a device has read an answer that had left


def stop_with_answers_owed(server: int, directory: Path, acknowledged: Callable[[], int], messages: int) -> int:
    """Stop the server's process while it owes answers, and return for how many messages.

    `directory` has the server's append-only files. `acknowledged` asks the devices, which send `messages` in all.
    0: there was no such moment before the devices had sent everything; the server is stopped nevertheless.
    """
    owed = 0
    for _ in range(_TRIES):
        os.kill(server, signal.SIGSTOP)
        time.sleep(_GATHER_S)
        journal = max(directory.glob("*.incr.aof"), key=lambda file: file.stat().st_mtime_ns)
        before = journal.stat().st_mtime_ns
        os.kill(server, signal.SIGCONT)
        deadline = time.monotonic() + _WRITE_S
        while journal.stat().st_mtime_ns == before and time.monotonic() < deadline:
            pass  # without a pause: the moment is the time that a sync takes
        os.kill(server, signal.SIGSTOP)
        told = _settled(acknowledged)
        owed = _written(directory) - told
        if owed > 0 or told >= messages:
            break
        os.kill(server, signal.SIGCONT)
        time.sleep(_HEARD_S)
    os.kill(server, signal.SIGSTOP)
    return max(owed, 0)


def _written(directory: Path) -> int:
    """Count the messages of the devices in the append-only files."""
    return sum(file.read_bytes().count(PRODUCER.encode()) for file in directory.glob("*.incr.aof"))


def _settled(acknowledged: Callable[[], int]) -> int:
    """Ask until the answer is the same twice: answers that had left are read by then."""
    told = acknowledged()
    while True:
        time.sleep(_HEARD_S)
        again = acknowledged()
        if again == told:
            return told
        told = again
