"""Manifests of append-only files: what is written is read again, what breaks a rule is named with its line."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.storage.disk import Disk
from headrace.storage.errors import BadManifest
from headrace.storage.manifest import Kind, Manifest, ManifestFile, parse, publish, segment_files

NAME = "appendonly.aof"

names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0") | st.sampled_from("\"' \n\t\x01\udcff"),
    min_size=1,
    max_size=30,
).filter(lambda name: name not in (".", ".."))
offsets = st.none() | st.integers(0, 2**63 - 1)
sequences = st.integers(1, 2**62)


def files(kind: Kind) -> st.SearchStrategy[ManifestFile]:
    return st.builds(ManifestFile, names, sequences, st.just(kind), offsets, offsets)


manifests = st.builds(
    Manifest,
    st.none() | files(Kind.BASE),
    st.lists(files(Kind.HISTORY), max_size=3).map(tuple),
    st.lists(files(Kind.INCREMENT), max_size=4, unique_by=lambda file: file.sequence).map(
        lambda found: tuple(sorted(found, key=lambda file: file.sequence))
    ),
    st.frozensets(st.integers(1, 10**10 - 1), max_size=3).map(segment_files),
).filter(lambda manifest: bool(manifest.files))


@given(manifests)
def test_what_is_written_is_read_again(manifest: Manifest) -> None:
    assert parse(manifest.text()) == manifest


@given(manifests, st.data())
def test_a_manifest_cut_anywhere_reads_as_its_first_lines_or_is_refused(
    manifest: Manifest, data: st.DataObject
) -> None:
    text = manifest.text().rpartition(b"#")[0]
    cut = text[: data.draw(st.integers(0, len(text)))]
    if cut.endswith(b"\n"):
        assert parse(cut).files == manifest.files[: cut.count(b"\n")]
    else:
        with pytest.raises(BadManifest):
            parse(cut)


@given(st.binary())
def test_any_bytes_are_a_manifest_or_refused(content: bytes) -> None:
    try:
        manifest = parse(content)
    except BadManifest:
        return
    if manifest.files:
        assert parse(manifest.text()) == manifest


@given(manifests, st.data())
def test_a_changed_byte_of_a_manifest_of_ours_is_found_or_means_the_same(
    manifest: Manifest, data: st.DataObject
) -> None:
    changed = bytearray(manifest.text())
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadManifest):
        assert parse(bytes(changed)) == manifest


def test_a_manifest_of_redis_is_read() -> None:
    text = (
        b"# written by hand\n"
        b"file appendonly.aof.2.base.rdb seq 2 type b\r\n"
        b'  FILE "append\\x6fnly.aof.1.incr.aof" SEQ 1 Type h future thing\n'
        b"seq 2 type i file 'appendonly.aof.2.incr.aof' startoffset 7 endoffset 9\n"
    )
    assert parse(text) == Manifest(
        ManifestFile(f"{NAME}.2.base.rdb", 2, Kind.BASE),
        (ManifestFile(f"{NAME}.1.incr.aof", 1, Kind.HISTORY),),
        (ManifestFile(f"{NAME}.2.incr.aof", 2, Kind.INCREMENT, 7, 9),),
    )


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (b"", 0, "it is empty"),
        (b"#\n\n", 2, "it is blank"),
        (b" \t\r\n", 1, "it is blank"),
        (b"file a seq 1 type b", 1, "it has no line feed at its end, so the rest of it may be missing"),
        (b"file " + b"a" * 1003 + b" seq 1 type b\n", 1, "it has 1022 bytes"),
        (b"file " + b"a" * 1006 + b" seq 1 type b\n", 1, "it has 1025 bytes, and a line has at most 1024"),
        (b"file a seq 1 type\n", 1, "its words do not come in pairs of a key and a value"),
        (b'file "a seq 1 type b\n', 1, "its quotes do not match"),
        (b"file a seq 1\n", 1, "it names no type"),
        (b"file a type b kind c\n", 1, "it names no seq"),
        (b"seq 1 type b x y\n", 1, "it names no file"),
        (b'file "" seq 1 type b\n', 1, "it names no file"),
        (b"file ../a seq 1 type b\n", 1, "'../a' is no bare file name"),
        (b"file .. seq 1 type b\n", 1, "'..' is no bare file name"),
        (b'file "a\\\\b" seq 1 type b\n', 1, "'a\\\\b' is no bare file name"),
        (b"file a seq 0 type b\n", 1, "'0' is no seq: it is a number from 1 on"),
        (b"file a seq -1 type b\n", 1, "'-1' is no seq: it is a number from 1 on"),
        (b"file a seq 9223372036854775808 type b\n", 1, "'9223372036854775808' is no seq: it is a number from 1 on"),
        (b"file a seq 1 type b startoffset x\n", 1, "'x' is no startoffset: it is a number from 0 on"),
        (b"file a seq 1 type b FILE a\n", 1, "it has a key twice"),
        (b"file a seq 1 type b\n#crc64 0\n", 2, "the checksum is not that of the lines before it"),
        (b"file a seq 1 type x\n", 1, "'x' is no type of file: it is b, h, i or s"),
        (b"file 0000000001.seg seq 2 type s\n", 1, "0000000001.seg is not the name of segment 2"),
        (b"file 1.seg seq 1 type s\n", 1, "1.seg is not the name of segment 1"),
        (b"file a seq 1 type b\nfile c seq 2 type b\n", 2, "there is a second base, c, after a"),
        (
            b"file a seq 2 type i\n#\nfile c seq 2 type i\n",
            3,
            "the sequence number 2 of an increment does not exceed 2, the one before",
        ),
    ],
)
def test_each_broken_rule_is_named_with_its_line(text: bytes, line: int, problem: str) -> None:
    if problem == "it has 1022 bytes":  # which is not too long
        assert parse(text).base is not None
        return
    with pytest.raises(BadManifest) as caught:
        parse(text)
    assert (caught.value.line, caught.value.problem) == (line, problem)
    assert str(caught.value) == (f"line {line}: {problem}" if line else problem)


def test_names_follow_each_other_through_rewrites() -> None:
    manifest = Manifest()
    manifest = manifest.with_base(manifest.next_base(NAME), kept=0).with_increment(manifest.next_increment(NAME))
    assert [file.name for file in manifest.files] == [f"{NAME}.1.base.rdb", f"{NAME}.1.incr.aof"]
    manifest = manifest.with_increment(manifest.next_increment(NAME))
    manifest = manifest.with_base(manifest.next_base(NAME, rdb=False))
    assert [(file.name, file.kind.value) for file in manifest.files] == [
        (f"{NAME}.2.base.aof", "b"),
        (f"{NAME}.1.incr.aof", "h"),
        (f"{NAME}.1.base.rdb", "h"),
        (f"{NAME}.2.incr.aof", "i"),
    ]
    assert manifest.loaded == (manifest.base, *manifest.increments)
    # A name that history still has is not given again, even when what it followed is gone.
    assert Manifest(history=manifest.history).next_base(NAME).sequence == 2
    assert Manifest(history=manifest.history).next_increment(NAME).sequence == 2
    assert manifest.with_history(()).history == ()


def test_the_segments_of_a_manifest_are_those_of_its_base() -> None:
    first = Manifest().with_base(ManifestFile("a.1.base.rdb", 1, Kind.BASE), segments=(3, 1))
    assert first.segment_numbers == {1, 3}
    assert b"file 0000000001.seg seq 1 type s\nfile 0000000003.seg seq 3 type s\n" in first.text()
    going_on = first.with_increment(first.next_increment("a")).with_history(())
    assert parse(going_on.text()).segment_numbers == {1, 3}
    second = going_on.with_base(going_on.next_base("a"), segments=(3,))
    assert second.segment_numbers == {3}


def test_where_an_increment_ended_is_forgotten_when_it_is_written_to_again() -> None:
    ended = ManifestFile("a", 1, Kind.INCREMENT, 5, 9)
    last = ManifestFile("b", 2, Kind.INCREMENT, 9, 12)
    manifest = Manifest(increments=(ended, last)).reopened()
    assert [file.end_offset for file in manifest.increments] == [9, None]
    assert Manifest().reopened() == Manifest()


class RecordingDisk(Disk):
    def __init__(self) -> None:
        self.done: list[str] = []

    def create(self, path: Path, *, replace: bool = False) -> int:
        self.done.append(f"create {path.name}")
        return super().create(path, replace=replace)

    def append(self, file: int, data: bytes | bytearray | memoryview) -> None:
        self.done.append(f"append {len(data)}")
        super().append(file, data)

    def sync(self, file: int) -> None:
        self.done.append("sync")
        super().sync(file)

    def rename(self, source: Path, target: Path) -> None:
        self.done.append(f"rename {source.name} {target.name}")
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self.done.append("sync directory")
        super().sync_directory(path)


def test_a_manifest_is_whole_and_synced_before_it_has_its_name(tmp_path: Path) -> None:
    disk = RecordingDisk()
    manifest = Manifest(ManifestFile("a", 1, Kind.BASE))
    path = tmp_path / "m.manifest"
    (tmp_path / "temp-m.manifest").write_bytes(b"what a crash left, longer than what is written now")
    publish(disk, path, manifest)
    assert disk.done == [
        "create temp-m.manifest",
        f"append {len(manifest.text())}",
        "sync",
        "sync directory",
        "rename temp-m.manifest m.manifest",
        "sync directory",
    ]
    assert parse(disk.read(path)) == manifest
    assert disk.list(tmp_path) == ["m.manifest"]
