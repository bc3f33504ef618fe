"""`headrace check` on directories with segments, and what --fix makes of damage in them."""

import re
import shutil
from pathlib import Path
from random import Random

import pytest

from headrace.cli.errors import CommandFailed
from headrace.cli.inspect.sources import from_path
from headrace.core.offloading import pack_run, settle_run
from headrace.core.stream import Stream
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.formats.segment import HEADER_SIZE
from headrace.storage.assembly import assemble
from headrace.storage.check import CheckReport, check
from headrace.storage.child import InlineJob
from headrace.storage.disk import Disk
from headrace.storage.repair import write_repaired
from headrace.storage.segments.names import segment_name
from headrace.storage.segments.writing import RunToWrite
from headrace.storage.store import Store
from support.in_process import InProcessClient
from support.steps import finish
from support.storage.data_sets import ids_in
from support.storage.operator_log import OperatorLog

ENTRIES = 60


def opened(path: Path, **settings: str) -> tuple[Engine, Store]:
    config = Config()
    for name, value in {"dir": str(path), "appendonly": "yes", "stream-node-max-entries": "4", **settings}.items():
        config.load(name, [value])
    engine, _, store = assemble(config, OperatorLog(), background=False, spawn=InlineJob)
    store.directory.lock()
    for _ in store.open():
        pass
    return engine, store


def offload(engine: Engine, store: Store, key: bytes, most_bytes: int = 400) -> None:
    stream = engine.databases[0].values[key]
    assert isinstance(stream, Stream)
    packed = pack_run(stream, most_bytes)
    assert packed is not None
    runs = store.segments.write([RunToWrite(0, key, packed.records, packed.data)])
    assert settle_run(stream, runs[0], packed.data)
    store.segments.settle(runs)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream with two segments in base and snapshot, and another, and effects behind the base."""
    path = tmp_path_factory.mktemp("data")
    engine, store = opened(path)
    client = InProcessClient(engine)
    random = Random(1)
    for number in range(1, ENTRIES + 1):
        client.run("XADD", "stream", f"{number}-1", "field", random.randbytes(20).hex())
    client.run("XADD", "other", "1-1", "a", "b")
    offload(engine, store, b"stream")
    offload(engine, store, b"stream")
    client.run("SAVE")
    client.run("BGREWRITEAOF")
    store.tick()
    client.run("XADD", "stream", "1000-1", "field", "after the base")
    client.run("XDEL", "stream", "59-1")
    store.close()
    return path


def checked(path: Path) -> CheckReport:
    return finish(check(path, Disk()))


def problems(report: CheckReport, name: str) -> list[str]:
    return [problem.text for file in report.files if file.path.name == name for problem in file.problems]


EVERYTHING = [f"{number}-1" for number in range(1, ENTRIES + 1) if number != 59] + ["1000-1"]
ONE, TWO = segment_name(1), segment_name(2)


def test_a_sound_directory_is_sound_and_readers_see_all_of_it(sample: Path) -> None:
    report = checked(sample)
    assert report.problems == 0
    assert "nodes with checksums" in report.verdict
    assert [file.path.name for file in report.files if file.kind == "segment"] == [ONE, TWO]
    assert ids_in(sample) == EVERYTHING


def test_a_segment_is_checked_by_itself_too(sample: Path, tmp_path: Path) -> None:
    assert checked(sample / "segments" / ONE).problems == 0
    path = tmp_path / ONE
    content = bytearray((sample / "segments" / ONE).read_bytes())
    content[HEADER_SIZE + 20] ^= 1
    path.write_bytes(content)
    assert problems(checked(path), ONE) == [f"the node of {content[HEADER_SIZE]} bytes there is not what was written"]


def test_the_inspector_shows_what_a_segment_has_of_a_stream(sample: Path) -> None:
    parts = [from_path(sample / "segments" / name, None, 0).stream for name in (ONE, TWO)]
    found = [str(id) for part in parts for id, _ in part.range()]
    assert found == EVERYTHING[: len(found)]
    assert [str(id) for id, _ in from_path(sample / "dump.rdb", b"stream", 0).stream.range()][: len(found)] == found
    with pytest.raises(CommandFailed, match="There is no stream"):
        from_path(sample / "segments" / ONE, None, 1)


def test_figures_of_a_base_that_are_not_those_of_its_segments_are_a_problem(tmp_path: Path) -> None:
    """A start believes them, because it reads no index; the checksum of the base covers them."""
    engine, store = opened(tmp_path)
    client = InProcessClient(engine)
    for number in range(1, ENTRIES + 1):
        client.run("XADD", "stream", f"{number}-1", "field", "value")
    offload(engine, store, b"stream", 4000)
    client.run("BGREWRITEAOF")
    store.tick()
    store.close()
    assert checked(tmp_path).problems == 0
    (base,) = tmp_path.glob("appendonlydir/*.base.rdb")
    content = bytearray(base.read_bytes())
    # How many nodes the rax of a part has, and behind it two paths, with bit 16 set.
    (count, *_) = re.finditer(rb"(?s).(?=\x80\x00\x01..\x80\x00\x01)", content)
    content[count.start()] += 1
    content[-8:] = bytes(8)
    base.write_bytes(content)
    (problem,) = problems(checked(tmp_path), base.name)
    assert problem.startswith("the counts and IDs of nodes that the stream b'stream' refers to are not those")


def test_a_segment_that_nothing_refers_to_is_listed(sample: Path, tmp_path: Path) -> None:
    path = shutil.copytree(sample, tmp_path / "data")
    (path / "segments" / segment_name(7)).write_bytes(b"of a crash")
    report = checked(path)
    assert report.problems == 0
    assert [(file.path.name, file.status) for file in report.files if file.kind == "old segment"] == [
        (segment_name(7), "not used")
    ]


def fixed(path: Path, tmp_path: Path) -> Path:
    output = tmp_path / "fixed"
    assert write_repaired(checked(path), output, Disk()) == []
    report = checked(output)
    assert report.problems == 0, [problem for file in report.files for problem in file.problems]
    return output


def start_and_list(path: Path) -> list[str]:
    """The entries of the stream as a server finds them."""
    engine, store = opened(path)
    stream = engine.databases[0].values[b"stream"]
    assert isinstance(stream, Stream)
    found = [str(id) for id, _ in stream.range()]
    store.close()
    return found


def test_a_damaged_node_costs_its_entries_and_no_others(sample: Path, tmp_path: Path) -> None:
    path = shutil.copytree(sample, tmp_path / "data")
    segment = path / "segments" / ONE
    content = bytearray(segment.read_bytes())
    content[HEADER_SIZE + 20] ^= 1
    segment.write_bytes(content)
    report = checked(path)
    assert problems(report, ONE) == [f"the node of {content[HEADER_SIZE]} bytes there is not what was written"]
    assert problems(report, "dump.rdb") == ["1 nodes that the stream b'stream' refers to cannot be read"]
    output = fixed(path, tmp_path)
    assert ids_in(output) == EVERYTHING[4:]
    assert start_and_list(output) == EVERYTHING[4:]
    assert segment.read_bytes() == content


@pytest.mark.parametrize("damage", ["missing", "footer", "index"])
def test_a_segment_that_is_lost_costs_what_it_held_and_no_more(sample: Path, tmp_path: Path, damage: str) -> None:
    path = shutil.copytree(sample, tmp_path / "data")
    segment = path / "segments" / ONE
    content = bytearray(segment.read_bytes())
    if damage == "missing":
        segment.unlink()
    else:
        content[-1 if damage == "footer" else content.index(b"stream", 0) - 200] ^= 1
        segment.write_bytes(content)
    assert len(problems(checked(path), ONE)) == 1
    output = fixed(path, tmp_path)
    kept = ids_in(output)
    assert 0 < len(kept) < len(EVERYTHING)
    assert kept == EVERYTHING[-len(kept) :]
    assert start_and_list(output) == kept
    assert (output / "segments" / ONE).exists() == (damage == "index")


def test_a_repaired_copy_shares_the_segments_with_the_original(sample: Path, tmp_path: Path) -> None:
    path = shutil.copytree(sample, tmp_path / "data")
    (path / "segments" / ONE).unlink()
    output = fixed(path, tmp_path)
    assert (output / "segments" / TWO).samefile(path / "segments" / TWO)
