"""A server that starts again stands at the place of the history where it was, unless its files were repaired."""

from pathlib import Path

import pytest

from headrace.cli.check.checking import run_check
from headrace.engine.configuration.config import Config
from headrace.engine.effect_log import CallbackSubscriber, EffectLog
from headrace.formats.aof import encode
from headrace.storage.assembly import Assembly, assemble
from headrace.storage.child import InlineJob
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from support.storage.operator_log import OperatorLog


def open_server(path: Path, *, is_replica: bool, appendonly: str = "yes") -> Assembly:
    config = Config()
    for name, values in (("dir", [str(path)]), ("save", [""]), ("appendonly", [appendonly])):
        config.load(name, values)
    if is_replica:
        config.load("replicaof", ["10.0.0.1", "6379"])
    assembly = assemble(config, OperatorLog(), directory=DataDirectory(Disk(), path), background=False, spawn=InlineJob)
    if is_replica:
        assembly.engine.begin_following()
    assembly.store.directory.lock()
    for _ in assembly.store.open():
        pass
    return assembly


def test_a_rewrite_behind_which_nothing_came_keeps_the_database_that_the_master_has_selected(tmp_path: Path) -> None:
    engine, _, store = open_server(tmp_path, is_replica=True)
    engine.effects.forward(encode([b"SELECT", b"1"]) + encode([b"SET", b"key", b"value"]), 1)
    place = engine.effects.history, engine.effects.offset, engine.effects.selected
    assert place[2] == 1
    store.rewrite_in_background(in_transaction=False)
    store.tick()
    store.close()

    engine, _, store = open_server(tmp_path, is_replica=True)
    assert (engine.effects.history, engine.effects.offset, engine.effects.selected) == place
    store.close()


def names_of(effects: EffectLog) -> list[bytes]:
    return [effects.history, *(name for name, _ in effects.ancestors)]


@pytest.mark.parametrize("is_replica", [False, True])
def test_a_repaired_directory_is_of_no_history_that_others_know(tmp_path: Path, is_replica: bool) -> None:
    data, fixed = tmp_path / "data", tmp_path / "fixed"
    data.mkdir()
    engine, journal, store = open_server(data, is_replica=False)
    for number in range(3):
        engine.effects.write([(0, [b"SET", b"key%d" % number, b"value"])])
        journal.drain()
    known = names_of(engine.effects)
    store.close()
    increment = data / "appendonlydir" / "appendonly.aof.1.incr.aof"
    increment.write_bytes(increment.read_bytes().replace(b"key1", b"kez1"))

    assert run_check(data, fix=True, output=fixed, as_json=False) == 1
    engine, _, store = open_server(fixed, is_replica=is_replica)
    assert set(engine.databases[0].values) == {b"key0", b"key2"}
    assert not {*known} & {*names_of(engine.effects)}
    known_now = names_of(engine.effects)
    store.close()

    engine, _, store = open_server(fixed, is_replica=is_replica)
    assert known_now[0] in names_of(engine.effects)  # followers of the repaired one continue
    store.close()


def test_a_snapshot_that_was_repaired_is_of_no_history_that_others_know(tmp_path: Path) -> None:
    data, fixed = tmp_path / "data", tmp_path / "fixed"
    data.mkdir()
    engine, _, store = open_server(data, is_replica=False, appendonly="no")
    engine.effects.subscribe(CallbackSubscriber(lambda _: None))
    engine.effects.write([(0, [b"SET", b"key", b"value"])])
    known = names_of(engine.effects)
    store.save()
    store.close()
    dump = data / "dump.rdb"
    dump.write_bytes(dump.read_bytes()[:-1] + b"?")

    assert run_check(data, fix=True, output=fixed, as_json=False) == 1
    engine, _, store = open_server(fixed, is_replica=False, appendonly="no")
    assert not {*known} & {*names_of(engine.effects)}
    store.close()
