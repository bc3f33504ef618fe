"""A replica that starts again stands at the place of its master's history where it was."""

from pathlib import Path

from headrace.engine.configuration.config import Config
from headrace.formats.aof import encode
from headrace.storage.assembly import Assembly, assemble
from headrace.storage.child import InlineJob
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from support.storage.data_sets import Log


def open_replica(path: Path) -> Assembly:
    config = Config()
    for name, values in (("dir", [str(path)]), ("save", [""]), ("replicaof", ["10.0.0.1", "6379"])):
        config.load(name, values)
    assembly = assemble(config, Log(), directory=DataDirectory(Disk(), path), background=False, spawn=InlineJob)
    assembly.engine.begin_following()
    assembly.store.directory.lock()
    for _ in assembly.store.open():
        pass
    return assembly


def test_a_rewrite_behind_which_nothing_came_keeps_the_database_that_the_master_has_selected(tmp_path: Path) -> None:
    engine, _, store = open_replica(tmp_path)
    engine.effects.forward(encode([b"SELECT", b"1"]) + encode([b"SET", b"key", b"value"]), 1)
    place = engine.effects.history, engine.effects.offset, engine.effects.selected
    assert place[2] == 1
    store.rewrite_in_background(in_transaction=False)
    store.tick()
    store.close()

    engine, _, store = open_replica(tmp_path)
    assert (engine.effects.history, engine.effects.offset, engine.effects.selected) == place
    store.close()
