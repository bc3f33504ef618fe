"""`headrace check`: it finds what start-up would stumble over, and its repaired copies start."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.formats.aof import NO_PLACE
from headrace.formats.aof_seal import seal
from headrace.storage import inspection
from headrace.storage.check import DAMAGED, MISSING, NOT_USED, WITHOUT_MANIFEST, CheckReport, check
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotCheck, CannotRecover
from headrace.storage.repair import write_repaired
from support.campaign import LONG
from support.steps import finish
from support.storage.data_sets import (
    BASE,
    BASE_NAME,
    GROUPS,
    INCREMENT,
    INCREMENT_NAME,
    MANIFEST_NAME,
    Files,
    content,
    encoded,
    journalled,
    load,
    load_files,
    manifest_text,
    read_files,
    replayed,
    sealed_directory,
    small_directory,
    snapshot,
    words,
    write_files,
)
from support.storage.memory_disk import MemoryDisk

WHOLE = small_directory()
SEALED = sealed_directory()
INCREMENT_PATH = f"appendonlydir/{INCREMENT_NAME}"
BASE_PATH = f"appendonlydir/{BASE_NAME}"
MANIFEST_PATH = f"appendonlydir/{MANIFEST_NAME}"
GOLDEN = Path(__file__).parent.parent / "golden"
TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
SOURCE = Path("/data")
COPY = Path("/copy")


@pytest.fixture(autouse=True)
def few_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make a thousand takes as long as to check all else."""
    monkeypatch.setattr(inspection, "_DATABASES", 16)


def checked(files: Files) -> tuple[CheckReport, MemoryDisk]:
    disk = MemoryDisk({SOURCE / name: data for name, data in files.items()})
    return finish(check(SOURCE, disk)), disk


def repaired(files: Files) -> tuple[Files, list[str]]:
    """The copy, and what could not be repaired; the original is as it was."""
    report, disk = checked(files)
    left = write_repaired(report, COPY, disk)
    assert {path: data for path, data in disk.files.items() if SOURCE in path.parents} == {
        SOURCE / name: data for name, data in files.items()
    }
    copy = {str(path.relative_to(COPY)): bytes(data) for path, data in disk.files.items() if COPY in path.parents}
    return copy, left


def starts_without_a_word(files: Files) -> bool:
    try:
        _, recovered, _ = load_files(files)
    except CannotRecover:
        return False
    return not recovered.cuts and not recovered.refused


# --- what is sound -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["redis-7.0.15", "redis-8.9"])
def test_what_redis_wrote_is_sound(version: str) -> None:
    report = finish(check(GOLDEN / version, Disk()))
    assert report.problems == 0
    assert [file.kind for file in report.files] == ["manifest", "base", "increment", "snapshot"]
    assert report.verdict.startswith(f"{GOLDEN / version} is sound: ")


def test_the_directory_may_be_the_one_with_the_manifest(tmp_path: Path) -> None:
    write_files(tmp_path, {name.replace("appendonly", "other"): data for name, data in WHOLE.items()})
    (tmp_path / "otherdir" / "other.aof.manifest").write_bytes(
        WHOLE[MANIFEST_PATH].replace(b"appendonly.aof", b"other.aof")
    )
    for path in (tmp_path, tmp_path / "otherdir"):
        report = finish(check(path, Disk()))
        assert (report.problems, len(report.files)) == (0, 3)


def test_a_single_file_is_checked_alone(tmp_path: Path) -> None:
    write_files(tmp_path, WHOLE)
    report = finish(check(tmp_path / INCREMENT_PATH, Disk()))
    assert [(file.kind, file.commands, file.problems) for file in report.files] == [("commands", len(INCREMENT), [])]
    report = finish(check(tmp_path / BASE_PATH, Disk()))
    assert [(file.kind, file.keys, file.problems) for file in report.files] == [("snapshot", 2, [])]
    report = finish(check(tmp_path / MANIFEST_PATH, Disk()))
    assert [(file.kind, file.problems) for file in report.files] == [("manifest", [])]


def test_the_single_file_of_an_older_redis_is_checked() -> None:
    report, _ = checked({"appendonly.aof": snapshot(replayed(BASE)) + encoded(INCREMENT)})
    (file,) = report.files
    assert (file.keys, file.commands, file.problems) == (2, len(INCREMENT), [])


@pytest.mark.parametrize("increments", [0, 1])
def test_a_base_that_a_crash_left_without_a_manifest_is_sound_because_a_start_takes_it(increments: int) -> None:
    files = {BASE_PATH: WHOLE[BASE_PATH], "dump.rdb": WHOLE[BASE_PATH]}
    files |= {INCREMENT_PATH: b""} if increments else {}
    report, _ = checked(files)
    assert report.problems == 0
    assert [file.kind for file in report.files] == ["base", "increment", "snapshot"][:: 1 if increments else 2]
    assert report.files[0].notes == [WITHOUT_MANIFEST]
    assert content(load_files(files)[0]) == content(replayed(BASE))
    damaged = files | {BASE_PATH: WHOLE[BASE_PATH][:-1] + bytes([WHOLE[BASE_PATH][-1] ^ 1])}
    copy, left = repaired(damaged)
    assert (left, checked(copy)[0].problems) == ([], 0)
    assert content(load_files(copy)[0]) == content(replayed(BASE))


def test_a_base_without_a_manifest_is_found_by_any_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"otherdir/other.aof.1.base.rdb": WHOLE[BASE_PATH]})
    for path in (tmp_path, tmp_path / "otherdir"):
        report = finish(check(path, Disk()))
        assert [(file.kind, file.keys, file.problems) for file in report.files] == [("base", 2, [])]


def test_empty_files_without_a_manifest_do_not_count() -> None:
    """A start takes the snapshot, and so does a check; it said that the manifest was missing."""
    files = {INCREMENT_PATH: b"", "dump.rdb": WHOLE[BASE_PATH]}
    report, _ = checked(files)
    assert [(file.kind, file.status) for file in report.files] == [("snapshot", "ok"), ("old increment", NOT_USED)]
    assert content(load_files(files)[0]) == content(replayed(BASE))


def test_what_is_not_used_is_listed() -> None:
    others = [
        "appendonlydir/temp-rewriteaof-1.rdb",
        f"{INCREMENT_PATH}.cut-5-x",
        "appendonlydir/appendonly.aof.7.base.rdb",
    ]
    report, _ = checked(WHOLE | dict.fromkeys(others, b"x"))
    assert report.problems == 0
    assert {str(file.path.relative_to(SOURCE)) for file in report.files if file.status == NOT_USED} == set(others)


def test_nothing_to_check_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotCheck, match=r"^There is no data of Headrace or Redis in .*\.$"):
        finish(check(tmp_path, Disk()))
    with pytest.raises(CannotCheck, match=r"^There is no .*missing to check\.$"):
        finish(check(tmp_path / "missing", Disk()))


# --- what is damaged -----------------------------------------------------------------------------------------------


def problems_of(files: Files) -> dict[str, list[tuple[int | None, str]]]:
    report, _ = checked(files)
    return {
        file.path.name: [(problem.offset, problem.text) for problem in file.problems]
        for file in report.files
        if file.problems
    }


def test_every_damage_of_a_file_is_named_with_its_offset() -> None:
    first, second = encoded(INCREMENT[:2]), encoded(INCREMENT[2:])
    refused = [words("NOSUCH a"), words("XACK orders"), words("XADD orders 1-1 a b")]
    data = first + b"garbage" + second + encoded(refused)
    damaged = len(first) + 7 + len(second)
    found = problems_of(WHOLE | {INCREMENT_PATH: data + b"*1\r\n$4\r\nPI"})[INCREMENT_NAME]
    assert [offset for offset, _ in found] == [
        len(first),
        *(damaged + len(encoded(refused[:count])) for count in range(3)),
        len(data) + 10,
    ]
    assert [problem for _, problem in found] == [
        "expected the * of a command or the # of an annotation, found byte 0x67; 7 bytes are no command",
        "NOSUCH a is refused: ERR unknown command 'NOSUCH', with args beginning with: 'a' ",
        "XACK orders is refused: ERR wrong number of arguments for 'xack' command",
        "XADD orders is refused: ERR The ID specified in XADD is equal or smaller than the target stream top item",
        "the file ends inside a command; 10 bytes are no command",
    ]


def test_groups_are_counted_and_a_bad_one_is_named_with_its_offset_and_its_commands() -> None:
    report, _ = checked(SEALED)
    assert (report.problems, report.files[-1].groups) == (0, len(GROUPS))
    assert report.verdict == "/data is sound: 2 keys and 9 commands were read, 4 groups compared with their seals."
    data = bytearray(SEALED[INCREMENT_PATH])
    start, end = (len(journalled(GROUPS[:count])) for count in (1, 2))
    data[end - 4] ^= 1
    files = SEALED | {INCREMENT_PATH: bytes(data)}
    names = "MULTI, XCLAIM orders, XGROUP SETID, EXEC, XADD orders"
    problem = f"a group of commands is not as it was sealed; {end - start} bytes with {names} are not believed"
    assert problems_of(files)[INCREMENT_NAME] == [(start, problem)]
    assert checked(files)[0].files[-1].groups == len(GROUPS) - 1


def test_a_manifest_and_its_files_are_compared() -> None:
    without_base = {name: data for name, data in WHOLE.items() if name != BASE_PATH}
    report, _ = checked(without_base)
    assert [tuple(problem) for problem in report.files[0].problems] == [
        (None, f"it names {BASE_NAME}, which is not there")
    ]
    report, _ = checked({name: data for name, data in WHOLE.items() if name != MANIFEST_PATH})
    assert (report.files[0].kind, report.files[0].status) == ("manifest", MISSING)
    report, _ = checked(WHOLE | {MANIFEST_PATH: manifest_text((BASE_NAME, "b"), (INCREMENT_NAME, "h"))})
    assert (report.files[0].kind, report.files[0].status) == ("manifest", DAMAGED)


def test_a_directory_in_use_is_said_to_be_and_not_repaired(tmp_path: Path) -> None:
    write_files(tmp_path, WHOLE | {INCREMENT_PATH: b"garbage"})
    directory = DataDirectory(Disk(), tmp_path)
    directory.lock()
    try:
        report = finish(check(tmp_path, Disk()))
        assert report.files[0].kind == "lock"
        with pytest.raises(CannotCheck, match=r"is used by another process \(pid \d+\): stop that before"):
            write_repaired(report, tmp_path / "copy", Disk())
    finally:
        directory.unlock()


# --- what is repaired ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_length_of_the_last_file_is_repaired_to_what_start_up_makes_of_it() -> None:
    for size in range(0, len(WHOLE[INCREMENT_PATH]), 1 if LONG else 3):
        files = WHOLE | {INCREMENT_PATH: WHOLE[INCREMENT_PATH][:size]}
        copy, left = repaired(files)
        assert left == []
        assert starts_without_a_word(copy)
        assert content(load_files(copy)[0]) == content(load_files(files)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sound", "name"),
    [(WHOLE, INCREMENT_PATH), (SEALED, INCREMENT_PATH), (WHOLE, BASE_PATH), (WHOLE, MANIFEST_PATH)],
    ids=["increment", "sealed increment", "base", "manifest"],
)
def test_each_changed_byte_is_found_where_start_up_stumbles_and_the_copy_starts(sound: Files, name: str) -> None:
    whole = content(replayed(BASE + INCREMENT))
    for at, byte in enumerate(sound[name]):
        for other in sorted((set(range(256)) if LONG else {byte ^ 1}) - {byte}):
            files = sound | {name: sound[name][:at] + bytes([other]) + sound[name][at + 1 :]}
            report, _ = checked(files)
            assert bool(report.problems) != starts_without_a_word(files), (at, other)
            if not report.problems or (at % 3 and not LONG):
                continue
            copy, left = repaired(files)
            if left:
                assert name == BASE_PATH
                continue
            assert checked(copy)[0].problems == 0, (at, other)
            try:
                engine, recovered, _ = load_files(copy)
            except CannotRecover as refusal:  # the number of the database is another, which only the server can judge
                assert "start with --databases" in str(refusal)  # noqa: PT017
                continue
            assert (recovered.cuts, recovered.refused) == ([], [])
            if name == MANIFEST_PATH:
                assert content(engine) == whole, files[name]


def test_one_damaged_command_costs_only_itself() -> None:
    """Also inside a transaction, and when it is the MULTI or the EXEC that is hit."""
    ends = [len(encoded(INCREMENT[:count])) for count in range(len(INCREMENT) + 1)]
    for hit in range(len(INCREMENT)):
        data = bytearray(WHOLE[INCREMENT_PATH])
        data[ends[hit]] = ord("!")
        copy, _ = repaired(WHOLE | {INCREMENT_PATH: bytes(data)})
        kept = [argv for at, argv in enumerate(INCREMENT) if at != hit and argv not in ([b"MULTI"], [b"EXEC"])]
        try:
            expected = content(replayed(BASE + kept))
        except AssertionError:  # what followed needed it
            continue
        assert content(load_files(copy)[0]) == expected, hit


def test_one_damaged_group_costs_only_itself() -> None:
    for hit in range(len(GROUPS)):
        data = bytearray(SEALED[INCREMENT_PATH])
        data[len(journalled(GROUPS[: hit + 1])) - 4] ^= 1
        copy, left = repaired(SEALED | {INCREMENT_PATH: bytes(data)})
        kept = [argv for at, group in enumerate(GROUPS) for unit in group for argv in unit if at != hit]
        assert content(load_files(copy)[0]) == content(replayed([*BASE, words("SELECT 0"), *kept]))
        report, _ = checked(copy)
        assert (left, report.problems, report.files[-1].groups) == ([], 0, len(GROUPS) - 1)


def test_what_follows_a_dropped_group_stays_in_its_database() -> None:
    groups = [encoded([words("SELECT 5"), words("SET a 1")]), encoded([words("SET b 2")])]
    data = b"".join(seal(group) + group for group in groups).replace(b"\r\n1\r\n", b"\r\n9\r\n")
    copy, _ = repaired(WHOLE | {INCREMENT_PATH: data})
    assert copy[INCREMENT_PATH] == encoded([words("SELECT 5")]) + seal(groups[1]) + groups[1] + NO_PLACE


def test_a_group_that_loses_a_refused_command_loses_its_seal() -> None:
    first, second = encoded([words("SET a 1"), words("NOSUCH x"), words("SET b 2")]), encoded([words("SET c 3")])
    copy, _ = repaired(WHOLE | {INCREMENT_PATH: seal(first) + first + seal(second) + second})
    assert copy[INCREMENT_PATH] == encoded([words("SET a 1"), words("SET b 2")]) + seal(second) + second + NO_PLACE
    open_multi = encoded([words("SET a 1"), words("MULTI"), words("SET b 2")])
    copy, _ = repaired(WHOLE | {INCREMENT_PATH: seal(open_multi) + open_multi})
    assert copy[INCREMENT_PATH] == encoded([words("SET a 1")]) + NO_PLACE


def test_only_the_seal_is_dropped_where_only_that_is_damaged() -> None:
    data = SEALED[INCREMENT_PATH]
    copy, _ = repaired(SEALED | {INCREMENT_PATH: data[:4] + b"x" + data[5:]})
    assert copy[INCREMENT_PATH] == data[data.index(b"*") :] + NO_PLACE


def test_a_wrong_checksum_is_dropped_where_every_value_reads() -> None:
    data = WHOLE[BASE_PATH][:-1] + bytes([WHOLE[BASE_PATH][-1] ^ 1])
    copy, left = repaired(WHOLE | {BASE_PATH: data})
    assert copy[BASE_PATH] == data[:-8] + bytes(8)
    assert left == []
    assert content(load_files(copy)[0]) == content(replayed(BASE + INCREMENT))


def test_a_snapshot_that_does_not_read_is_copied_and_named() -> None:
    data = WHOLE[BASE_PATH][:-20]
    copy, left = repaired(WHOLE | {BASE_PATH: data})
    assert copy[BASE_PATH] == data
    (sentence,) = left
    assert sentence.startswith(f"{BASE_NAME}: ")


def test_a_lost_manifest_is_made_of_the_names_of_the_files() -> None:
    second = "appendonly.aof.2.incr.aof"
    files = {name: data for name, data in WHOLE.items() if name != MANIFEST_PATH}
    files |= {f"appendonlydir/{second}": encoded([words("SET last 1")])}
    copy, _ = repaired(files)
    assert content(load_files(copy)[0]) == content(
        replayed([*BASE, *INCREMENT, words("SELECT 0"), words("SET last 1")])
    )


# --- the command ---------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)], env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return -1, str(result.exception)
    return result.exit_code, result.stdout


def test_the_command_prints_a_table_and_a_verdict(tmp_path: Path) -> None:
    path = write_files(tmp_path / "data", WHOLE)
    code, out = run(path)
    assert code == 0
    assert "appendonlydir/appendonly.aof.1.incr.aof  increment" in out
    assert out.splitlines()[-1] == f"{path} is sound: 2 keys and {len(INCREMENT)} commands were read."
    (path / INCREMENT_PATH).write_bytes(WHOLE[INCREMENT_PATH][:-1])
    code, out = run(path)
    assert code == 1
    assert f"{INCREMENT_PATH}: offset {len(WHOLE[INCREMENT_PATH]) - 1}: the file ends inside a command" in out
    assert f"{path} is damaged: 1 problem in 1 file.\n" in out


def test_the_command_repairs_into_a_copy(tmp_path: Path) -> None:
    damaged = WHOLE | {INCREMENT_PATH: WHOLE[INCREMENT_PATH][:-1]}
    path = write_files(tmp_path / "data", damaged)
    code, out = run(path, "--fix")
    assert (code, read_files(path)) == (1, damaged)
    assert f"The repaired copy is {path}.fixed; the original is as it was." in out
    engine, _, told = load(Path(f"{path}.fixed"))
    assert told == []
    assert content(engine) == content(replayed(BASE + INCREMENT[:-1]))
    assert run(path, "--fix") == (
        -1,
        f"{path}.fixed is already there: remove it, or choose another place with --output.",
    )
    code, _ = run(path / INCREMENT_PATH, "--fix", "--output", tmp_path / "one.aof")
    assert (tmp_path / "one.aof").read_bytes() == encoded(INCREMENT[:-1]) + NO_PLACE


def test_what_is_sound_needs_no_copy(tmp_path: Path) -> None:
    path = write_files(tmp_path / "data", WHOLE)
    assert run(path, "--fix")[0] == 0
    assert not Path(f"{path}.fixed").exists()


def test_prepared_space_of_a_sound_directory_is_cut_in_place(tmp_path: Path) -> None:
    path = write_files(tmp_path / "data", WHOLE | {INCREMENT_PATH: WHOLE[INCREMENT_PATH] + bytes(5000)})
    code, out = run(path)
    assert (code, "5000 bytes of prepared space at the end are not used yet" in out) == (0, True)
    code, out = run(path, "--fix")
    assert code == 0
    assert "5000 bytes of prepared space were cut off; Redis and redis-check-aof take the files now." in out
    assert read_files(path)[INCREMENT_PATH] == WHOLE[INCREMENT_PATH]
    assert not Path(f"{path}.fixed").exists()


def test_prepared_space_is_not_cut_below_a_server(tmp_path: Path) -> None:
    path = write_files(tmp_path / "data", WHOLE | {INCREMENT_PATH: WHOLE[INCREMENT_PATH] + bytes(5000)})
    held = DataDirectory(Disk(), path)
    held.lock()
    try:
        code, out = run(path, "--fix")
    finally:
        held.unlock()
    assert (code, "stop that before its files are changed" in out) == (-1, True)
    assert read_files(path)[INCREMENT_PATH] == WHOLE[INCREMENT_PATH] + bytes(5000)


def test_the_findings_as_json(tmp_path: Path) -> None:
    path = shutil.copytree(GOLDEN / "redis-7.0.15", tmp_path / "data")
    (path / "dump.rdb").write_bytes(b"REDIS0010\xff")
    code, out = run(path, "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["sound"], found["path"], found["repaired"]) == (1, False, str(path), None)
    assert found["files"][-1] == {
        "file": "dump.rdb",
        "kind": "snapshot",
        "status": "damaged",
        "size": 10,
        "keys": 0,
        "commands": None,
        "groups": None,
        "nodes": None,
        "problems": [{"offset": 10, "problem": "expected the checksum of the file, but 0 bytes remain"}],
        "notes": [],
    }
