"""Start-up: which files are loaded, in which order, and what is said and done where they do not end well."""

import re
from pathlib import Path

import pytest

from headrace.formats.aof_seal import seal
from headrace.storage.data_files import Source
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover, StorageError
from headrace.storage.loading import load_snapshot
from headrace.storage.manifest import Kind, Manifest, ManifestFile, parse
from support.storage.data_sets import (
    BASE,
    BASE_NAME,
    GROUPS,
    INCREMENT,
    INCREMENT_NAME,
    MANIFEST_NAME,
    Command,
    content,
    encoded,
    journalled,
    load,
    manifest_text,
    new_engine,
    read_files,
    recovery,
    replayed,
    settings,
    small_directory,
    snapshot,
    words,
    write_files,
)
from support.storage.operator_log import OperatorLog

ADVICE = "Nothing was changed; `headrace check --fix {path}` repairs what can be, in a copy."
INCREMENT_PATH = f"appendonlydir/{INCREMENT_NAME}"
SECOND = "appendonly.aof.2.incr.aof"


def refused(path: Path, **changes: str) -> str:
    """The sentence with which a directory is refused, after which it is as it was."""
    before = read_files(path)
    with pytest.raises(CannotRecover) as caught:
        load(path, **changes)
    assert read_files(path) == before
    return str(caught.value)


def with_increment(path: Path, data: bytes) -> Path:
    return write_files(path, small_directory() | {INCREMENT_PATH: data})


# --- which files ---------------------------------------------------------------------------------------------------


def test_an_empty_directory_gives_no_data_and_stays_empty(tmp_path: Path) -> None:
    engine, report, told = load(tmp_path)
    assert content(engine) == {}
    assert (report.source, report.manifest, told) == (Source.NOTHING, None, [])
    assert read_files(tmp_path) == {}


def test_the_base_and_then_the_increments_are_loaded(tmp_path: Path) -> None:
    files = small_directory()
    write_files(tmp_path, files)
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert (report.source, report.keys, report.commands) == (Source.APPEND_FILES, 2, len(INCREMENT))
    assert [path.name for path in report.files] == [BASE_NAME, INCREMENT_NAME]
    assert report.manifest is not None
    assert report.manifest == parse(files[f"appendonlydir/{MANIFEST_NAME}"])
    assert told == []
    assert read_files(tmp_path) == files


def test_a_base_of_commands_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    base = "appendonly.aof.7.base.aof"
    write_files(
        tmp_path,
        {
            f"appendonlydir/{base}": encoded(BASE),
            INCREMENT_PATH: encoded(INCREMENT),
            f"appendonlydir/{MANIFEST_NAME}": manifest_text(
                (base, "b"), ("gone.aof.3.incr.aof", "h"), (INCREMENT_NAME, "i")
            ),
        },
    )
    engine, report, _ = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert report.commands == len(BASE + INCREMENT)


def test_each_file_begins_in_database_0(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            INCREMENT_PATH: encoded([words("SELECT 5"), words("SET a 1")]),
            f"appendonlydir/{SECOND}": encoded([words("SET a 2")]),
            f"appendonlydir/{MANIFEST_NAME}": manifest_text((INCREMENT_NAME, "i"), (SECOND, "i")),
        },
    )
    engine, _, _ = load(tmp_path)
    assert content(engine).keys() == {(5, b"a"), (0, b"a")}


@pytest.mark.parametrize("mixed", [False, True], ids=["commands", "a snapshot, then commands"])
def test_the_single_file_of_an_older_redis_becomes_the_base(tmp_path: Path, mixed: bool) -> None:
    data = snapshot(replayed(BASE)) + encoded(INCREMENT) if mixed else encoded(BASE + INCREMENT)
    write_files(tmp_path, {"appendonly.aof": data, "dump.rdb": b"older, and not looked at"})
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert report.source is Source.APPEND_FILES
    assert len(told) == 1
    assert "was moved to" in told[0]
    assert read_files(tmp_path) == {
        "dump.rdb": b"older, and not looked at",
        "appendonlydir/appendonly.aof": data,
        f"appendonlydir/{MANIFEST_NAME}": Manifest(ManifestFile("appendonly.aof", 1, Kind.BASE)).text(),
    }
    again, _, told = load(tmp_path)
    assert content(again) == content(engine)
    assert told == []


def test_a_move_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    manifest = b"file appendonly.aof seq 1 type b\n"
    write_files(tmp_path, {"appendonly.aof": encoded(BASE), f"appendonlydir/{MANIFEST_NAME}": manifest})
    engine, _, _ = load(tmp_path)
    assert content(engine) == content(replayed(BASE))
    assert read_files(tmp_path).keys() == {"appendonlydir/appendonly.aof", f"appendonlydir/{MANIFEST_NAME}"}


def test_a_snapshot_without_append_only_files_is_loaded_and_told(tmp_path: Path) -> None:
    write_files(tmp_path, {"dump.rdb": snapshot(replayed(BASE))})
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE))
    assert (report.source, report.manifest) == (Source.SNAPSHOT, None)
    assert told == [
        f"There are no append-only files yet: the snapshot {tmp_path / 'dump.rdb'} is loaded, and becomes their base."
    ]


def test_without_appendonly_the_snapshot_counts_and_the_other_files_are_told(tmp_path: Path) -> None:
    files = small_directory() | {"dump.rdb": snapshot(replayed([words("SET a 1")]))}
    write_files(tmp_path, files)
    engine, _, told = load(tmp_path, appendonly="no")
    assert content(engine) == content(replayed([words("SET a 1")]))
    assert told == [f"appendonly is no: the append-only files in {tmp_path / 'appendonlydir'} are not read."]
    assert read_files(tmp_path) == files


def test_what_has_expired_is_left_out_of_a_snapshot_and_kept_in_a_base(tmp_path: Path) -> None:
    data = snapshot(replayed([words("SET old 1"), words("PEXPIREAT old 1"), words("SET new 1")]))
    write_files(tmp_path / "a", {"dump.rdb": data})
    engine, report, _ = load(tmp_path / "a")
    assert content(engine).keys() == {(0, b"new")}
    assert report.expired == 1
    manifest = manifest_text((BASE_NAME, "b"))
    write_files(tmp_path / "b", {f"appendonlydir/{BASE_NAME}": data, f"appendonlydir/{MANIFEST_NAME}": manifest})
    engine, report, _ = load(tmp_path / "b")
    assert content(engine).keys() == {(0, b"new"), (0, b"old")}


def test_what_is_behind_the_end_of_a_snapshot_is_told(tmp_path: Path) -> None:
    write_files(tmp_path, {"dump.rdb": snapshot(replayed(BASE)) + b"more"})
    engine, _, told = load(tmp_path, appendonly="no")
    assert content(engine) == content(replayed(BASE))
    assert told == [f"There are 4 bytes behind the end of the snapshot {tmp_path / 'dump.rdb'}; not loaded."]


# --- what is refused -----------------------------------------------------------------------------------------------


def test_append_only_files_without_a_manifest_are_not_overwritten(tmp_path: Path) -> None:
    files = small_directory()
    del files[f"appendonlydir/{MANIFEST_NAME}"]
    write_files(tmp_path, files)
    assert refused(tmp_path) == (
        f"There are append-only files in {tmp_path / 'appendonlydir'}, but no manifest {MANIFEST_NAME} that says which "
        f"of them count. {ADVICE.format(path=tmp_path)}"
    )


@pytest.mark.parametrize("increments", [0, 1])
def test_a_first_base_that_a_crash_left_without_a_manifest_gets_one(tmp_path: Path, increments: int) -> None:
    files = small_directory() | {INCREMENT_PATH: b""}
    del files[f"appendonlydir/{MANIFEST_NAME}"]
    if not increments:
        del files[INCREMENT_PATH]
    write_files(tmp_path, files | {"dump.rdb": b"what the base was made of"})
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE))
    assert report.manifest is not None
    assert len(report.manifest.loaded) == 1 + increments
    assert told == [f"{tmp_path / 'appendonlydir' / BASE_NAME} had no manifest yet; it has one now."]
    assert parse(read_files(tmp_path)[f"appendonlydir/{MANIFEST_NAME}"]) == report.manifest


def test_a_broken_manifest_is_named_with_its_line(tmp_path: Path) -> None:
    write_files(tmp_path, small_directory() | {f"appendonlydir/{MANIFEST_NAME}": b"#\nfile a seq 0 type b\n"})
    assert refused(tmp_path) == (
        f"The manifest {tmp_path / 'appendonlydir' / MANIFEST_NAME} is damaged: line 2: '0' is no seq: it is a number "
        f"from 1 on. {ADVICE.format(path=tmp_path)}"
    )


def test_a_file_that_the_manifest_names_must_be_there(tmp_path: Path) -> None:
    write_files(tmp_path, small_directory())
    (tmp_path / "appendonlydir" / BASE_NAME).unlink()
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / 'appendonlydir' / BASE_NAME} is missing, which the manifest names. Bring it "
        f"back; `headrace check {tmp_path}` says what there is."
    )


@pytest.mark.parametrize("kinds", ["hi", "bh"])
def test_a_manifest_that_leaves_out_what_counts_is_refused(tmp_path: Path, kinds: str) -> None:
    manifest = manifest_text((BASE_NAME, kinds[0]), (INCREMENT_NAME, kinds[1]))
    write_files(tmp_path, small_directory() | {f"appendonlydir/{MANIFEST_NAME}": manifest})
    assert refused(tmp_path) == (
        f"The manifest {tmp_path / 'appendonlydir' / MANIFEST_NAME} leaves out "
        f"{BASE_NAME if kinds == 'hi' else INCREMENT_NAME}, which belongs to the files that count. "
        f"{ADVICE.format(path=tmp_path)}"
    )


def test_what_rewrites_leave_behind_does_not_count(tmp_path: Path) -> None:
    """Old files that were not removed yet, and new ones that were not published."""
    files = {name.replace(".1.", ".5."): data.replace(b".1.", b".5.") for name, data in small_directory().items()}
    manifest = files[f"appendonlydir/{MANIFEST_NAME}"].replace(b"seq 1", b"seq 5")
    files |= {
        f"appendonlydir/{MANIFEST_NAME}": manifest,
        f"appendonlydir/{BASE_NAME}": b"older",
        INCREMENT_PATH: b"older",
        "appendonlydir/appendonly.aof.6.incr.aof": b"",
        "appendonlydir/appendonly.aof.6.base.rdb": b"newer",
    }
    write_files(tmp_path, files)
    engine, _, _ = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert read_files(tmp_path) == files


def test_an_unknown_command_is_named_with_its_offset(tmp_path: Path) -> None:
    first = encoded([words("SET a 1")])
    with_increment(tmp_path, first + encoded([words("JSON.SET doc $ 1")]))
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / INCREMENT_PATH} has at offset {len(first)} the command JSON.SET doc, which "
        "cannot be repeated here: ERR unknown command 'JSON.SET', with args beginning with: 'doc' '$' '1' . "
        f"{ADVICE.format(path=tmp_path)}"
    )


@pytest.mark.parametrize("argv", [words("XADD orders"), words("XADD orders MAXCOUNT 1 9-9 a b"), words("SELECT 99")])
def test_a_command_that_is_not_understood_stops_the_start(tmp_path: Path, argv: Command) -> None:
    with_increment(tmp_path, encoded([argv]))
    assert "cannot be repeated here: ERR" in refused(tmp_path)


def test_a_command_that_redis_refuses_too_is_told_and_passed_over(tmp_path: Path) -> None:
    with_increment(tmp_path, encoded([words("XADD orders 1-1 a b")] * 20 + INCREMENT))
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert len(report.refused) == 20
    assert told[0] == (
        f"In {tmp_path / INCREMENT_PATH}, offset 0: the command XADD orders was refused: ERR The ID specified in XADD "
        "is equal or smaller than the target stream top item."
    )
    assert told[10] == "There is more like this, which is counted and not listed."
    assert len(told) == 11


def test_a_database_that_there_is_not_is_named_with_what_to_set(tmp_path: Path) -> None:
    write_files(tmp_path, {"dump.rdb": snapshot(replayed(BASE))})
    assert refused(tmp_path, databases="2") == (
        f"The snapshot {tmp_path / 'dump.rdb'} has keys in database 3, and there are only 2: start with --databases 4."
    )


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path) -> None:
    data = snapshot(replayed(BASE))
    write_files(tmp_path, {"dump.rdb": data[:-1] + bytes([data[-1] ^ 1])})
    assert re.fullmatch(
        rf"The snapshot {tmp_path}/dump.rdb is damaged: offset {len(data) - 8}: expected CRC .*\. "
        + re.escape(ADVICE.format(path=tmp_path)),
        refused(tmp_path),
    )


def test_what_the_disk_refuses_is_one_sentence(tmp_path: Path) -> None:
    class BrokenDisk(Disk):
        def read(self, path: Path) -> memoryview:
            raise OSError(5, "Input/output error", str(path))

    write_files(tmp_path, small_directory())
    config = settings()
    with pytest.raises(StorageError, match=r"^Headrace cannot load the data in .*: Input/output error\.$"):
        list(recovery(new_engine(config), DataDirectory(BrokenDisk(), tmp_path), config, OperatorLog()))


# --- the end of the last file --------------------------------------------------------------------------------------


def test_half_a_command_is_cut_off_saved_and_told(tmp_path: Path) -> None:
    whole = encoded(INCREMENT)
    half = encoded([words("XADD orders 4-1 item ruler count 4")])[:-9]
    with_increment(tmp_path, whole + half)
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    files = read_files(tmp_path)
    assert files[INCREMENT_PATH] == whole
    (saved,) = (name for name in files if ".cut-" in name)
    assert re.fullmatch(rf"{INCREMENT_PATH}\.cut-{len(whole)}-\d{{8}}T\d{{6}}Z", saved)
    assert files[saved] == half
    (sentence,) = told
    assert sentence == (
        f"The end of {tmp_path / INCREMENT_PATH} was cut off at offset {len(whole)}, because the file ends inside a "
        f"command: {len(half)} bytes with XADD orders. They are saved as {Path(saved).name}."
    )
    assert report.cuts[0].commands == ("XADD orders",)


def test_a_transaction_without_its_end_is_cut_back_to_its_beginning(tmp_path: Path) -> None:
    inside = [words("MULTI"), words("SET a 1"), words("SET b 2")]
    with_increment(tmp_path, encoded(INCREMENT + inside) + b"*1\r\n$4\r\nEX")
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert read_files(tmp_path)[INCREMENT_PATH] == encoded(INCREMENT)
    assert report.cuts[0].commands == ("MULTI", "SET a", "SET b")
    with_increment(tmp_path, encoded(INCREMENT + inside))
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert "because the transaction that begins with this MULTI has no EXEC: " in told[0]
    assert len([name for name in read_files(tmp_path) if ".cut-" in name]) == 2


def test_aof_load_truncated_no_refuses_what_would_be_cut(tmp_path: Path) -> None:
    with_increment(tmp_path, encoded(INCREMENT)[:-1])
    assert refused(tmp_path, aof_load_truncated="no") == (
        f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset {len(encoded(INCREMENT)) - 1}: the "
        f"file ends inside a command, and aof-load-truncated is no. {ADVICE.format(path=tmp_path)}"
    )


def test_prepared_space_is_cut_without_a_word(tmp_path: Path) -> None:
    with_increment(tmp_path, encoded(INCREMENT) + bytes(10_000))
    engine, report, told = load(tmp_path, aof_load_truncated="no")
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert (report.unused, told) == (10_000, [])
    assert read_files(tmp_path)[INCREMENT_PATH] == encoded(INCREMENT)


def test_half_a_command_in_prepared_space_is_cut_with_the_space(tmp_path: Path) -> None:
    with_increment(tmp_path, encoded(INCREMENT)[:-5] + bytes(10_000))
    _, report, _ = load(tmp_path)
    files = read_files(tmp_path)
    assert files[INCREMENT_PATH] == encoded(INCREMENT[:-1])
    (saved,) = (data for name, data in files.items() if ".cut-" in name)
    assert saved == encoded(INCREMENT[-1:])[:-5]
    assert report.cuts[0].commands == ("XACK orders",)


def test_a_block_that_was_never_written_ends_the_file(tmp_path: Path) -> None:
    filler = [words("SET filler " + "x" * 700)]
    data = bytearray(encoded(INCREMENT + filler * 3))
    data[1024:1536] = bytes(512)
    with_increment(tmp_path, bytes(data))
    _, report, told = load(tmp_path)
    (cut,) = report.cuts
    assert read_files(tmp_path)[INCREMENT_PATH] == bytes(data[: cut.offset])
    assert cut.data == bytes(data[cut.offset :])
    assert "because a block of the file was never written: " in told[0]
    assert cut.offset == len(encoded(INCREMENT))


def test_a_corrupt_end_is_cut_only_where_it_is_allowed_and_small(tmp_path: Path) -> None:
    with_increment(tmp_path, encoded(INCREMENT) + b"garbage")
    end = len(encoded(INCREMENT))
    for most in ("0", "7"):
        assert refused(tmp_path, aof_load_corrupt_tail_max_size=most) == (
            f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset {end}: expected the * of a command "
            f"or the # of an annotation, found byte 0x67. {ADVICE.format(path=tmp_path)}"
        )
    engine, report, _ = load(tmp_path, aof_load_corrupt_tail_max_size="8")
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert report.cuts[0].data == b"garbage"


def test_a_length_that_was_damaged_does_not_take_the_commands_behind_it_along(tmp_path: Path) -> None:
    damaged = encoded([words("SET a 1")]).replace(b"$3", b"$9999")
    with_increment(tmp_path, damaged + encoded(INCREMENT))
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset 0: the command does not end where its "
        f"lengths say. {ADVICE.format(path=tmp_path)}"
    )


# --- groups with seals ---------------------------------------------------------------------------------------------

LARGE = [[[words(f"XADD large {number}-1 value {'x' * 1500}")]] for number in range(1, 4)]


def without_block(data: bytes, block: int) -> bytes:
    return data[: block * 512] + bytes(512) + data[(block + 1) * 512 :]


def test_a_group_without_its_end_is_cut_off_whole(tmp_path: Path) -> None:
    group = [[words("SET a 1")], [words("SET b 2")]]
    whole, longer = journalled(GROUPS), journalled([*GROUPS, group])
    with_increment(tmp_path, longer[:-5] + bytes(5000))
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT))
    assert read_files(tmp_path)[INCREMENT_PATH] == whole
    assert report.cuts[0].data == longer[len(whole) : -5]
    assert "because the file ends inside a group of commands: 91 bytes with SET a, SET b. " in told[0]


def test_a_group_with_a_block_that_was_never_written_is_cut_off(tmp_path: Path) -> None:
    """The commands look whole: it is a value that has zeros."""
    data = journalled(LARGE)
    with_increment(tmp_path, without_block(data, 8))
    engine, report, told = load(tmp_path)
    assert report.cuts[0].offset == len(journalled(LARGE[:2]))
    assert len(engine.databases[0].values[b"large"]) == 2
    assert "because a block of the file was never written: " in told[0]


@pytest.mark.parametrize("taken", [1, 100, 511])
def test_a_group_with_a_block_written_in_part_is_cut_off(tmp_path: Path, taken: int) -> None:
    """The system took a write in two parts that meet in a block, and the block was last on disk between them."""
    data = journalled(LARGE)
    with_increment(tmp_path, data[: 8 * 512 + taken] + bytes(512 - taken) + data[9 * 512 :])
    engine, report, told = load(tmp_path)
    assert report.cuts[0].offset == len(journalled(LARGE[:2]))
    assert len(engine.databases[0].values[b"large"]) == 2
    assert "because a block of the file was never written: " in told[0]


def test_what_follows_a_missing_block_is_cut_off_where_nothing_was_synced(tmp_path: Path) -> None:
    with_increment(tmp_path, without_block(journalled(LARGE, policy="no"), 1))
    engine, report, _ = load(tmp_path)
    assert report.cuts[0].offset == 0
    assert b"large" not in engine.databases[0].values


def test_a_missing_block_that_had_been_on_disk_is_refused(tmp_path: Path) -> None:
    with_increment(tmp_path, without_block(journalled(LARGE), 1))
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset 512: a block of the file is missing "
        f"that had been on disk. {ADVICE.format(path=tmp_path)}"
    )


@pytest.mark.parametrize("group", [1, 3])
def test_a_group_that_is_not_as_it_was_sealed_is_refused(tmp_path: Path, group: int) -> None:
    """Also the last: what a crash leaves has blocks missing, not other bytes, so this was acknowledged."""
    data = bytearray(journalled(GROUPS))
    start, end = len(journalled(GROUPS[:group])), len(journalled(GROUPS[: group + 1]))
    data[end - 4] ^= 1
    with_increment(tmp_path, bytes(data))
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset {start}: a group of commands is not as "
        f"it was sealed. {ADVICE.format(path=tmp_path)}"
    )
    if group == 3:
        engine, report, _ = load(tmp_path, aof_load_corrupt_tail_max_size="1000")
        assert content(engine) == content(replayed(BASE + INCREMENT[:-1]))
        assert report.cuts[0].commands == ("XACK orders",)


@pytest.mark.parametrize("group", [1, 3])
def test_a_damaged_size_does_not_take_the_groups_behind_it_along(tmp_path: Path, group: int) -> None:
    data = bytearray(journalled(GROUPS))
    start = len(journalled(GROUPS[:group]))
    data[start + 4] = ord("9")
    with_increment(tmp_path, bytes(data))
    assert f"is damaged at offset {start}: " in refused(tmp_path)


def test_commands_that_redis_wrote_behind_ours_count_whatever_is_in_them(tmp_path: Path) -> None:
    zeros = [[b"SET", b"zeros", bytes(3000)], [b"SET", b"text", b"#HR:" + bytes(3000)]]
    again = encoded([words("SET ours again")])
    redis_wrote = encoded([words("SELECT 0"), *zeros])
    with_increment(tmp_path, journalled(GROUPS) + redis_wrote + seal(again) + again)
    engine, report, told = load(tmp_path)
    assert content(engine) == content(replayed([*BASE, *INCREMENT, *zeros, words("SET ours again")]))
    assert (report.cuts, told) == ([], [])


def test_only_the_last_file_with_data_may_end_too_early(tmp_path: Path) -> None:
    half = encoded(INCREMENT)[:-1]
    manifest = manifest_text((BASE_NAME, "b"), (INCREMENT_NAME, "i"), (SECOND, "i"))
    files = small_directory() | {INCREMENT_PATH: half, f"appendonlydir/{MANIFEST_NAME}": manifest}
    write_files(tmp_path, files | {f"appendonlydir/{SECOND}": encoded([words("SET a 1")])})
    assert refused(tmp_path) == (
        f"The append-only file {tmp_path / INCREMENT_PATH} is damaged at offset {len(half)}: the file ends inside a "
        f"command, and other files follow it. {ADVICE.format(path=tmp_path)}"
    )
    # A rewrite has begun a new file and nothing was written to it yet.
    write_files(tmp_path, files | {f"appendonlydir/{SECOND}": bytes(100)})
    engine, _, _ = load(tmp_path)
    assert content(engine) == content(replayed(BASE + INCREMENT[:-1]))


def test_nothing_is_cut_before_everything_was_read(tmp_path: Path) -> None:
    """A crash at any operation of the cut leaves a directory that loads to the same."""
    half = encoded(INCREMENT)[:-1]

    class Crash(Exception):
        pass

    class FailingDisk(Disk):
        def __init__(self, allowed: int) -> None:
            self.allowed = allowed

        def _count(self) -> None:
            if not self.allowed:
                raise Crash
            self.allowed -= 1

        def create(self, path: Path, *, replace: bool = False) -> int:
            self._count()
            return super().create(path, replace=replace)

        def append(self, file: int, data: bytes | bytearray | memoryview) -> None:
            self._count()
            super().append(file, data)

        def sync(self, file: int) -> None:
            self._count()
            super().sync(file)

        def truncate(self, file: int, size: int) -> None:
            self._count()
            super().truncate(file, size)

    for allowed in range(6):
        path = with_increment(tmp_path / str(allowed), half)
        config = settings()
        run = recovery(new_engine(config), DataDirectory(FailingDisk(allowed), path), config, OperatorLog())
        if allowed < 5:
            with pytest.raises(Crash):
                list(run)
        else:
            list(run)
        saved = [data for name, data in read_files(path).items() if ".cut-" in name]
        assert read_files(path)[INCREMENT_PATH] == half or encoded(INCREMENT[-1:])[:-1] in saved
        engine, _, _ = load(path)
        assert content(engine) == content(replayed(BASE + INCREMENT[:-1]))


# --- a snapshot alone ----------------------------------------------------------------------------------------------


def test_a_snapshot_is_loaded_again_into_an_engine_that_runs(tmp_path: Path) -> None:
    write_files(tmp_path, {"dump.rdb": snapshot(replayed(BASE))})
    engine = new_engine(settings())
    for progress in load_snapshot(engine, tmp_path / "dump.rdb", Disk(), OperatorLog()):
        assert progress.done <= progress.total
    assert not engine.loading
    assert content(engine) == content(replayed(BASE))


def test_a_snapshot_that_is_missing_or_damaged_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "dump.rdb"
    with pytest.raises(StorageError, match=rf"^Headrace cannot load the snapshot {path}: No such file or directory\.$"):
        list(load_snapshot(new_engine(settings()), path, Disk(), OperatorLog()))
    path.write_bytes(b"REDIS")
    with pytest.raises(StorageError, match=rf"^The snapshot {path} is damaged: offset 5: .*\.$"):
        list(load_snapshot(new_engine(settings()), path, Disk(), OperatorLog()))
