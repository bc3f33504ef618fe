"""Putting together what keeps data: settings, engine, journal, and a store on a data directory.

    Config ─► make_engine ─► Engine ◄─ effects ─ Journal ─┐
                                └────────── Store ─► DataDirectory

The server and the database in process use it, and so do the tests, which put a simulated disk under it.
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.commands.all import make_engine
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.storage.child import ForkedJob, Job, Work
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.journal import Journal
from headrace.storage.log import Log
from headrace.storage.store import Store


class Assembly(NamedTuple):
    """An engine, and what keeps its data."""

    engine: Engine
    journal: Journal
    store: Store


def assemble(
    config: Config,
    log: Log,
    *,
    directory: DataDirectory | None = None,
    background: bool = True,
    spawn: Callable[[Work], Job] = ForkedJob,
) -> Assembly:
    """Put an engine and a store together; nothing is locked or loaded yet, and no thread needs the host.

    Without `background` the journal has no thread of its own, and `spawn` may do the work of children at once.
    """
    directory = directory or DataDirectory.configured(config, Disk())
    engine = make_engine(config)
    journal = Journal(directory.disk, background=background, effects=engine.effects)
    return Assembly(engine, journal, Store(engine, directory, journal, spawn, log))
