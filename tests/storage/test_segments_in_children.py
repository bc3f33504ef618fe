"""Children that write snapshots of streams in segments: they read these for themselves, and keep them meanwhile."""

from pathlib import Path
from random import Random

import pytest

from headrace.core.offloading import pack_run, settle_run
from headrace.core.stream import Stream
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.storage.assembly import assemble
from headrace.storage.disk import Disk
from headrace.storage.segments.names import named_by
from headrace.storage.segments.writing import RunToWrite
from headrace.storage.store import Store
from support.in_process import InProcessClient
from support.patience import await_that
from support.storage.data_sets import ids_in
from support.storage.operator_log import OperatorLog

ENTRIES = 400


def started(path: Path, compatibility: str) -> tuple[Engine, Store, OperatorLog]:
    config = Config()
    settings = {"dir": str(path), "appendonly": "yes", "rdb-compatibility-version": compatibility}
    for name, value in {**settings, "stream-node-max-entries": "10"}.items():
        config.load(name, [value])
    log = OperatorLog()
    engine, _, store = assemble(config, log, background=False)
    store.directory.lock()
    for _ in store.open():
        pass
    return engine, store, log


def fill(engine: Engine, store: Store) -> list[str]:
    """Add a stream of which most is in segments, and files are open; its IDs."""
    client = InProcessClient(engine)
    random = Random(1)
    for number in range(1, ENTRIES + 1):
        client.run("XADD", "stream", f"{number}-1", "field", random.randbytes(30).hex())
    stream = engine.databases[0].values[b"stream"]
    assert isinstance(stream, Stream)
    for _ in range(3):
        packed = pack_run(stream, 8000)
        assert packed is not None
        runs = store.segments.write([RunToWrite(0, b"stream", packed.records, packed.data)])
        settle_run(stream, runs[0], packed.data)
        store.segments.settle(runs)
    ids = [str(id) for id, _ in stream.range()]
    assert len(ids) == ENTRIES
    return ids


def wait_for_child(store: Store) -> None:
    def is_idle() -> bool:
        store.tick()
        return store.children.is_idle

    await_that(is_idle)


@pytest.mark.parametrize("compatibility", ["auto", "7.0"])
def test_a_child_writes_what_was_there_though_its_parent_drops_it_meanwhile(tmp_path: Path, compatibility: str) -> None:
    engine, store, _ = started(tmp_path, compatibility)
    ids = fill(engine, store)
    client = InProcessClient(engine)
    assert client.run("BGSAVE") == b"+Background saving started\r\n"
    client.run("DEL", "stream")
    store.segments.remove_unneeded()
    assert len(store.segments) == 3
    wait_for_child(store)
    assert store.saving.history.count == 1
    assert ids_in(tmp_path / "dump.rdb") == ids
    dump_refers = compatibility == "auto"
    assert bool(named_by(Disk(), tmp_path / "dump.rdb")) == dump_refers
    store.tick()
    assert len(store.segments) == (3 if dump_refers else 0)
    store.close()


def test_a_child_that_cannot_read_a_segment_fails_with_its_name(tmp_path: Path) -> None:
    engine, store, log = started(tmp_path, "7.0")
    fill(engine, store)
    client = InProcessClient(engine)
    segment = tmp_path / "segments" / "0000000002.seg"
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    store.segments.cache.forget(store.segments.runs_of(2)[0])
    client.run("BGSAVE")
    wait_for_child(store)
    assert any("0000000002.seg cannot be read at offset 16" in sentence for sentence in log.sentences), log.sentences
    assert b"0000000002.seg cannot be read at offset 16" in client.run("SAVE")
    assert not (tmp_path / "dump.rdb").exists()
    assert client.run("XLEN", "stream") == b":%d\r\n" % ENTRIES
    store.close()


def test_a_rewrite_of_mostly_cold_data_is_small_and_a_start_finds_it(tmp_path: Path) -> None:
    engine, store, log = started(tmp_path, "auto")
    ids = fill(engine, store)
    assert InProcessClient(engine).run("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    wait_for_child(store)
    assert store.rewriting.history.count == 1, log.sentences
    base = store.files.manifest.base
    assert base is not None
    assert store.directory.located(base).stat().st_size < sum(
        file.stat().st_size for file in (tmp_path / "segments").iterdir()
    )
    store.close()
    assert ids_in(tmp_path) == ids
    engine, store, _ = started(tmp_path, "auto")
    assert store.segments.in_use() == {1, 2, 3}
    stream = engine.databases[0].values[b"stream"]
    assert isinstance(stream, Stream)
    assert [str(id) for id, _ in stream.range()] == ids
    store.close()
