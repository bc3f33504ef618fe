"""The data directories that Redis 7.0.15 and 8.9 wrote load to what those servers held."""

import json
import shutil
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.formats.aof import AofReader
from headrace.storage.data_files import Source
from headrace.storage.recovery import Recovered
from support.storage.data_sets import load, read_files

GOLDEN = Path(__file__).parent.parent / "golden"
Held = dict[str, Any]


@pytest.fixture(params=["redis-7.0.15", "redis-8.9"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load_copy(version: str, path: Path, *names: str) -> tuple[Engine, Recovered]:
    """Load some of the files that a server wrote; nothing is left out or changed."""
    path.mkdir()
    for name in names:
        (shutil.copytree if (GOLDEN / version / name).is_dir() else shutil.copy)(GOLDEN / version / name, path / name)
    before = read_files(path)
    engine, report, _ = load(path)
    assert (report.skipped, report.refused, report.cuts, report.expired) == ([], [], [], 0)
    assert read_files(path) == before
    return engine, report


def expected_of_dump(version: str) -> Held:
    """What the server said of its keys, `db/key`."""
    held: Held = json.loads((GOLDEN / version / "expected-of-dump.json").read_text())
    return {name: told["value"] for name, told in held.items()}


def text(word: bytes) -> str:
    return word.decode("latin-1")


def held_by(engine: Engine) -> Held:
    """The same of an engine."""
    return {f"{db.number}/{text(key)}": shown(value) for db in engine.databases for key, value in db.values.items()}


def shown(value: object) -> Any:
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, deque):
        return [text(element) for element in value]
    if isinstance(value, MemberSet):
        return sorted(map(text, value))
    if isinstance(value, dict):
        return {text(field): text(content) for field, content in value.items()}
    if isinstance(value, SortedSet):
        return [[text(member), score] for member, score in value.items()]
    assert isinstance(value, Stream)
    return {
        "entries": [[str(id), shown_fields(fields)] for id, fields in value.range()],
        "groups": [
            {
                "name": text(group.name),
                "consumers": len(group.consumer_list()),
                "pending": group.pending_count,
                "last-delivered-id": str(group.last_delivered_id),
                "entries-read": group.position,
                "lag": group.lag,
            }
            for group in value.group_list()
        ],
        "pending": {
            text(group.name): [
                [str(id), text(consumer or b""), count] for id, consumer, _, count in group.pending_records()
            ]
            for group in value.group_list()
        },
        "last": str(value.last_id),
        "added": value.entries_added,
        "max_deleted": str(value.max_deleted_id),
    }


def shown_fields(fields: list[bytes]) -> list[list[str]]:
    words = list(map(text, fields))
    return [[name, content] for name, content in zip(words[::2], words[1::2], strict=True)]


def after_later_writes(held: Held, version: str) -> Held:
    """What the server held after the increment: entries for two streams, a group's read, and the end of a consumer."""
    (path,) = (GOLDEN / version / "appendonlydir").glob("*.incr.aof")
    reader = AofReader(path.read_bytes())
    devmsg = held["0/devmsg"]
    workers = next(group for group in devmsg["groups"] if group["name"] == "workers")
    while (argv := reader.next()) is not None:
        match list(map(text, argv)):
            case ["XADD", key, id, *_]:
                stream = held[f"0/{key}"]
                stream["entries"].append([id, shown_fields(argv[3:])])
                stream["last"] = id
                stream["added"] += 1
            case ["XCLAIM", "devmsg", "workers", consumer, "0", id, *_]:
                devmsg["pending"]["workers"].append([id, consumer, 1])
                workers["last-delivered-id"] = id
                workers["consumers"] = 4
            case ["XGROUP", "SETID", "devmsg", "workers", id, "ENTRIESREAD", read]:
                workers["last-delivered-id"] = id
                workers["entries-read"] = int(read)  # which 7.0 does not write, and so forgets
            case ["XGROUP", "DELCONSUMER", "devmsg", "workers", consumer]:
                devmsg["pending"]["workers"] = [
                    record for record in devmsg["pending"]["workers"] if record[1] != consumer
                ]
                workers["consumers"] -= 1
    workers["pending"] = len(devmsg["pending"]["workers"])
    for stream in held.values():
        for group in stream["groups"] if isinstance(stream, dict) and "groups" in stream else ():
            if group["name"] == "workers" or group["last-delivered-id"] != stream["last"]:
                group["lag"] = None if group["entries-read"] is None else stream["added"] - group["entries-read"]
    return held


def ordered(held: Held) -> Held:
    return {name: sorted(value) if name.endswith(("ints", "words")) else value for name, value in held.items()}


def test_a_snapshot_of_redis_is_simply_loaded(version: str, tmp_path: Path) -> None:
    engine, report = load_copy(version, tmp_path / "data", "dump.rdb")
    assert report.source is Source.SNAPSHOT
    assert held_by(engine) == ordered(expected_of_dump(version))


def test_the_append_only_files_of_redis_are_simply_loaded(version: str, tmp_path: Path) -> None:
    engine, report = load_copy(version, tmp_path / "data", "appendonlydir", "dump.rdb")
    assert report.source is Source.APPEND_FILES
    assert held_by(engine) == after_later_writes(ordered(expected_of_dump(version)), version)
