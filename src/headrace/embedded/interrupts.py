"""Ctrl-C, which must not arrive in the middle of a command.

Python raises KeyboardInterrupt between any two steps of the main thread, and one that comes while a command changes two
things that belong together would leave one of them changed. So, unless the program has a handler of its own for Ctrl-C,
ours is in force as long as a database is open:

    the main thread is inside a database        KeyboardInterrupt comes when it leaves, at most a command later
    it is anywhere else                         KeyboardInterrupt comes at once, as ever
"""

import signal
import threading
from collections.abc import Iterable
from types import FrameType

from headrace.embedded.host import Host

_hosts: Iterable[Host] = ()


def postpone_interrupts(hosts: Iterable[Host]) -> None:
    """Look after Ctrl-C for these databases, unless the program does, or this thread may not."""
    global _hosts  # noqa: PLW0603 — a signal has one handler in a process
    _hosts = hosts
    if _may_set_handlers() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def restore_interrupts() -> None:
    """Leave Ctrl-C as we found it."""
    if _may_set_handlers() and signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _may_set_handlers() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if not any(host.postpone_interrupt() for host in list(_hosts)):
        raise KeyboardInterrupt
