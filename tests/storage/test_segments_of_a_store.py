"""Which segments a store keeps: those that its data, its base and its snapshot refer to, at every start."""

from pathlib import Path
from random import Random

import pytest

from headrace.engine.configuration.config import Config
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import SEGMENTS_FIELD
from headrace.storage.assembly import assemble
from headrace.storage.child import InlineJob
from headrace.storage.errors import CannotRecover
from headrace.storage.manifest import parse
from headrace.storage.segments.names import DIRECTORY, named_by, named_in, naming_field, segment_name
from headrace.storage.segments.segment import SegmentRun
from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process
from support.storage.operator_log import OperatorLog
from support.storage.segment_samples import packed, some_nodes
from support.storage.simulated_disk import SimulatedDisk

SEGMENTS = ROOT / DIRECTORY
DUMP = ROOT / "dump.rdb"


class Host:
    """A store that never had a start before, or is started again."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: str) -> None:
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        self.process = Process(disk or SimulatedDisk(ROOT), Clock(), named)
        self.process.start()
        self.disk = self.process.disk
        self.store = self.process.store
        self.client = InProcessClient(self.process.engine)

    def write(self) -> SegmentRun:
        """Write a segment, all of which a log refers to."""
        (run,) = self.store.segments.write([packed(some_nodes(Random(1), 3))])
        run.keep(run.nodes, run.size)
        self.store.segments.settle([run])
        return run

    def drop(self, run: SegmentRun) -> None:
        run.drop(run.nodes, run.size)
        self.tick()

    def tick(self) -> None:
        self.store.tick()

    def run(self, *command: str) -> bytes:
        reply = self.client.run(*command)
        self.tick()
        self.tick()
        return reply

    def named(self) -> set[int]:
        """What the manifest names."""
        return set(parse(self.disk.read(self.store.directory.manifest)).segment_numbers)

    def present(self) -> list[str]:
        return self.disk.list(SEGMENTS) if self.disk.exists(SEGMENTS) else []

    def again(self, **settings: str) -> "Host":
        """Kill the process, and start another."""
        return Host(self.disk.restarted(), **settings)


ONE, TWO = segment_name(1), segment_name(2)


def test_a_base_names_the_segments_of_its_data_in_itself_and_in_the_manifest() -> None:
    host = Host()
    host.write()
    assert host.named() == set()
    host.run("BGREWRITEAOF")
    assert host.named() == {1}
    base = host.store.files.manifest.base
    assert base is not None
    assert named_by(host.disk, host.store.directory.located(base)) == {1}


def test_a_segment_that_no_log_refers_to_stays_while_the_base_names_it() -> None:
    host = Host()
    run = host.write()
    host.run("BGREWRITEAOF")
    host.drop(run)
    assert host.present() == [ONE]
    host.run("BGREWRITEAOF")
    assert host.present() == []
    assert host.named() == set()


def test_a_segment_that_no_log_refers_to_stays_while_the_snapshot_names_it() -> None:
    for command in ("SAVE", "BGSAVE"):
        host = Host()
        run = host.write()
        host.run(command)
        assert named_by(host.disk, DUMP) == {1}
        host.drop(run)
        host.run("BGREWRITEAOF")
        assert host.present() == [ONE]
        host.run(command)
        assert host.present() == []


def test_a_snapshot_for_redis_names_no_segments() -> None:
    host = Host(rdb_compatibility_version="7.0")
    host.write()
    host.run("BGREWRITEAOF")
    host.run("SAVE")
    assert host.named() == named_by(host.disk, DUMP) == set()


def test_what_no_base_names_is_removed_by_the_next_start() -> None:
    host = Host()
    host.write()
    host.run("BGREWRITEAOF")
    host.write()
    assert host.present() == [ONE, TWO]
    again = host.again()
    assert again.present() == [ONE]
    assert again.write().segment.number == 3  # a number is not used twice by one process


def test_what_the_snapshot_names_stays_when_it_is_not_what_is_loaded() -> None:
    host = Host()
    host.write()
    host.run("SAVE")
    assert host.again().present() == [ONE]
    assert host.again(appendonly="no").present() == [ONE]


def test_what_the_manifest_names_stays_when_it_is_not_read() -> None:
    host = Host()
    host.write()
    host.run("BGREWRITEAOF")
    assert host.again(appendonly="no").present() == [ONE]


@pytest.mark.parametrize(("broken", "appendonly"), [("manifest", "no"), ("dump", "yes")])
def test_nothing_is_removed_where_nobody_knows_what_is_named(broken: str, appendonly: str) -> None:
    host = Host()
    host.write()
    host.run("SAVE")
    host.run("BGREWRITEAOF")
    host.write()
    disk = host.disk.restarted()
    file = disk.create(host.store.directory.manifest if broken == "manifest" else DUMP, replace=True)
    disk.append(file, b"REDIS0014\xfa\x20")
    disk.close(file)
    assert Host(disk, appendonly=appendonly).present() == [ONE, TWO]


def damage(disk: SimulatedDisk, path: Path, offset: int) -> None:
    content = bytearray(disk.read(path))
    content[offset] ^= 1
    file = disk.create(path, replace=True)
    disk.append(file, content)
    disk.close(file)


@pytest.mark.parametrize("by", ["manifest", "snapshot"])
def test_a_start_is_refused_where_a_segment_that_is_named_is_missing_or_broken(by: str) -> None:
    host = Host()
    host.write()
    host.run("BGREWRITEAOF" if by == "manifest" else "SAVE")
    host.write()
    settings = {"appendonly": "yes" if by == "manifest" else "no"}
    disk = host.disk.restarted()
    damage(disk, SEGMENTS / ONE, disk.size(SEGMENTS / ONE) - 1)
    with pytest.raises(CannotRecover, match=r"^The segment .*0000000001\.seg cannot be read at offset .*check --fix"):
        Host(disk, **settings)
    assert disk.list(SEGMENTS) == [ONE, TWO]
    disk = disk.restarted()
    disk.unlink(SEGMENTS / ONE)
    with pytest.raises(CannotRecover, match=r"^The segment .*0000000001\.seg cannot be read: No such file"):
        Host(disk, **settings)
    assert disk.list(SEGMENTS) == [TWO]


def test_damage_inside_of_a_segment_does_not_stop_the_start() -> None:
    host = Host()
    host.write()
    host.run("BGREWRITEAOF")
    disk = host.disk.restarted()
    damage(disk, SEGMENTS / ONE, 50)
    assert Host(disk).present() == [ONE]


def test_a_base_that_has_no_manifest_yet_keeps_its_segments() -> None:
    host = Host()
    host.write()
    host.run("BGREWRITEAOF")
    disk = host.disk.restarted()
    disk.unlink(host.store.directory.manifest)
    again = Host(disk)
    assert again.named() == {1}
    assert again.present() == [ONE]


def test_a_snapshot_from_elsewhere_needs_none_of_the_segments_of_before() -> None:
    host = Host()
    run = host.write()
    host.run("BGREWRITEAOF")
    other = Host()
    other.run("SET", "key", "value")
    other.run("SAVE")
    path = host.store.incoming()
    file = host.disk.create(path)
    host.disk.append(file, bytes(other.disk.read(DUMP)))
    host.disk.close(file)
    for _ in host.store.adopt(path, None, 0):
        pass
    host.drop(run)
    assert host.named() == set()
    assert host.present() == []


def test_the_directory_cannot_be_changed_while_there_are_segments(tmp_path: Path) -> None:
    places = [tmp_path / "first", tmp_path / "second"]
    config = Config()
    for place in places:
        place.mkdir()
    for name, value in {"dir": str(places[0]), "appendonly": "no", "enable-protected-configs": "yes"}.items():
        config.load(name, [value])
    engine, _, store = assemble(config, OperatorLog(), background=False, spawn=InlineJob)
    store.directory.lock()
    for _ in store.open():
        pass
    client = InProcessClient(engine)
    (run,) = store.segments.write([packed(some_nodes(Random(1), 3))])
    store.segments.settle([run])
    assert b"the data refers to segments" in client.run("CONFIG", "SET", "dir", str(places[1]))
    store.tick()
    assert client.run("CONFIG", "SET", "dir", str(places[1])) == b"+OK\r\n"
    store.segments.write([packed(some_nodes(Random(1), 3))])
    assert [path.name for path in (places[1] / DIRECTORY).iterdir()] == [ONE]
    store.close()


def test_the_field_that_names_segments_is_read_as_it_is_written() -> None:
    assert named_in(naming_field({12, 3})[SEGMENTS_FIELD]) == {12, 3}
    assert naming_field(()) == {}
    for text in (b"", b"1 ", b"x", b"-1", b"0", b"1\n", b"12345678901"):
        with pytest.raises(CorruptPayload, match="names no segments"):
            named_in(text)
