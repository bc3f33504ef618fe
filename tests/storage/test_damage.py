"""Every length and every byte of a small data directory: damage is found or harms nothing but what it hit."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest

from headrace.formats.aof_seal import SEAL_BYTES
from headrace.storage.errors import CannotRecover
from headrace.storage.manifest import parse
from support.campaign import LONG
from support.storage.data_sets import (
    AFTER_GROUPS,
    BASE,
    BASE_NAME,
    GROUPS,
    INCREMENT,
    INCREMENT_NAME,
    MANIFEST_NAME,
    content,
    encoded,
    journalled,
    load_files,
    replayed,
    sealed_directory,
    small_directory,
    words,
)

INCREMENT_PATH = f"appendonlydir/{INCREMENT_NAME}"
BASE_PATH = f"appendonlydir/{BASE_NAME}"
MANIFEST_PATH = f"appendonlydir/{MANIFEST_NAME}"

WHOLE = small_directory()
BOUNDS = [len(encoded(INCREMENT[:count])) for count in range(len(INCREMENT) + 1)]
MULTI = next(at for at, argv in enumerate(INCREMENT) if argv == [b"MULTI"])
EXEC = next(at for at, argv in enumerate(INCREMENT) if argv == [b"EXEC"])


def changes_of(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Data with one byte changed, where, and to what: everything where there is time, else what means something."""
    for at, byte in enumerate(data):
        for other in range(256) if LONG else sorted({byte ^ 1, byte ^ 0xFF, 0, *b"*#\r\n09"}):
            if other != byte:
                yield data[:at] + bytes([other]) + data[at + 1 :], at, other


def rejoined(files: dict[str, bytes]) -> bytes:
    """The increment and what was cut from it."""
    return files[INCREMENT_PATH] + b"".join(data for name, data in files.items() if ".cut-" in name)


@pytest.mark.parametrize("space", [0, 700])
def test_each_length_of_the_last_file_keeps_every_whole_command(space: int) -> None:
    data = encoded(INCREMENT)
    states = [content(replayed(BASE + INCREMENT[:count])) for count in range(len(BOUNDS))]
    for size in range(len(data) + 1):
        whole = max(count for count, end in enumerate(BOUNDS) if end <= size)
        if MULTI < whole <= EXEC:
            whole = MULTI
        engine, report, files = load_files(WHOLE | {INCREMENT_PATH: data[:size] + bytes(space)})
        assert content(engine) == states[whole], size
        assert len(files[INCREMENT_PATH]) == BOUNDS[whole]
        assert rejoined(files) == data[:size]
        assert len(report.cuts) == (size != BOUNDS[whole])


@pytest.mark.parametrize("name", [BASE_PATH, MANIFEST_PATH])
def test_each_length_of_another_file_but_its_own_is_refused(name: str) -> None:
    for size in range(len(WHOLE[name])):
        with pytest.raises(CannotRecover):
            load_files(WHOLE | {name: WHOLE[name][:size]})


@pytest.mark.slow
def test_each_changed_byte_of_a_snapshot_is_found() -> None:
    for changed, _, _ in changes_of(WHOLE[BASE_PATH]):
        with pytest.raises(CannotRecover):
            load_files(WHOLE | {BASE_PATH: changed})


@pytest.mark.slow
def test_each_changed_byte_of_the_last_file_is_found_or_harms_only_its_command() -> None:
    states = [content(replayed(BASE + INCREMENT[:count])) for count in range(len(BOUNDS))]
    for changed, at, other in changes_of(WHOLE[INCREMENT_PATH]):
        hit = max(count for count, end in enumerate(BOUNDS) if end <= at)
        in_transaction = MULTI <= hit <= EXEC
        before = MULTI if in_transaction else hit
        try:
            engine, report, files = load_files(WHOLE | {INCREMENT_PATH: changed})
        except CannotRecover:
            continue
        assert rejoined(files) == changed.rstrip(b"\0")
        if report.cuts:
            # Nothing can tell the damaged last command from one that was not finished.
            (cut,) = report.cuts
            assert before == len(INCREMENT) - 1, (at, other)
            assert cut.offset == BOUNDS[before]
            assert content(engine) == states[before]
        else:
            # Every command is there: the one that was hit has another key, value or database, or was refused, and with
            # it those that need what it did.
            assert report.commands >= len(INCREMENT) - 1, (at, other)
            if not report.refused and hit == len(INCREMENT) - 1:
                assert content(engine).keys() >= states[before].keys()


# --- what our journal writes ---------------------------------------------------------------------------------------

SEALED = sealed_directory()
SEALED_BOUNDS = [len(journalled(GROUPS[:count])) for count in range(len(GROUPS) + 1)]
SEALED_STATES = [content(replayed(BASE + INCREMENT[:count])) for count in AFTER_GROUPS]


@pytest.mark.parametrize("space", [0, 700])
def test_each_length_of_a_sealed_file_keeps_every_whole_group(space: int) -> None:
    data = SEALED[INCREMENT_PATH]
    for size in range(len(data) + 1):
        whole = max(count for count, end in enumerate(SEALED_BOUNDS) if end <= size)
        engine, report, files = load_files(SEALED | {INCREMENT_PATH: data[:size] + bytes(space)})
        assert content(engine) == SEALED_STATES[whole], size
        assert len(files[INCREMENT_PATH]) == SEALED_BOUNDS[whole]
        assert rejoined(files) == data[:size]
        assert len(report.cuts) == (size != SEALED_BOUNDS[whole])


@pytest.mark.slow
def test_each_changed_byte_of_a_sealed_file_is_refused_or_changes_nothing() -> None:
    """But for the very last bytes: as zeros, they are like bytes that a crash has taken, and are cut."""
    data = SEALED[INCREMENT_PATH]
    for changed, at, other in changes_of(data):
        hit = max(count for count, end in enumerate(SEALED_BOUNDS) if end <= at)
        try:
            engine, report, files = load_files(SEALED | {INCREMENT_PATH: changed})
        except CannotRecover:
            continue
        if report.cuts:
            assert (at, other) == (len(data) - 1, 0)
            assert content(engine) == SEALED_STATES[-2]
            assert rejoined(files) == changed.rstrip(b"\0")
        else:
            assert 0 < at - SEALED_BOUNDS[hit] < SEAL_BYTES
            assert content(engine) == SEALED_STATES[-1], (at, other)


LARGE = [[[words(f"XADD large {number}-1 value {'x' * 1500}")]] for number in range(1, 6)]


@pytest.mark.parametrize("policy", ["always", "no"])
@pytest.mark.parametrize("room", [0, 4096])
def test_each_block_that_is_missing_is_torn_by_a_crash_or_lost_by_the_disk(policy: str, room: int) -> None:
    """Under `always` a group is written when the one before is synced: whatever the last says was on disk was lost."""
    data = journalled(LARGE, policy=policy, room=room)
    bounds = [len(journalled(LARGE[:count], policy=policy)) for count in range(len(LARGE) + 1)]
    for block in range(0, bounds[-1], 512):
        end = min(block + 512, len(data))
        changed = data[:block] + bytes(end - block) + data[end:]
        whole = max(count for count, bound in enumerate(bounds) if bound <= block)
        torn = policy == "no" or end > bounds[-2]
        with suppress(CannotRecover) if not torn else nullcontext():
            engine, report, files = load_files(WHOLE | {INCREMENT_PATH: changed})
            assert torn, block
            assert files[INCREMENT_PATH] == data[: bounds[whole]]
            assert len(report.cuts) == 1
            large = engine.databases[0].values.get(b"large")
            assert (0 if large is None else len(large)) == whole


@pytest.mark.parametrize("ours", [False, True], ids=["Redis's", "ours"])
def test_each_changed_byte_of_a_manifest_is_found_or_means_the_same(ours: bool) -> None:
    expected = content(replayed(BASE + INCREMENT))
    text = parse(WHOLE[MANIFEST_PATH]).text() if ours else WHOLE[MANIFEST_PATH]
    for changed, _, _ in changes_of(text):
        with suppress(CannotRecover):
            engine, _, _ = load_files(WHOLE | {MANIFEST_PATH: changed})
            assert content(engine) == expected, changed
