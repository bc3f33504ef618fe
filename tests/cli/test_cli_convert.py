"""`convert`: everything arrives, a real redis-server reads it, and the command says what it cannot carry over."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.core.stream import Stream
from headrace.formats.rdb_file import verify_checksum
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader
from support.cli.process import headrace, output, refusal, told
from support.ports import free_port
from support.rdb_samples import comparable, sample_keys, written
from support.server_process import ServerProcess
from support.starting import client_of

GOLDEN = Path(__file__).parent.parent / "golden"


def keys_of(path: Path) -> dict[tuple[int, bytes], Any]:
    """All that a file holds, to be compared."""
    content = path.read_bytes()
    assert verify_checksum(content)
    found = {}
    for record in RdbFileReader(content):
        assert isinstance(record, LoadedKey)
        found[record.db, record.key] = (comparable(record.value), record.expires_ms)
    return found


@contextmanager
def redis_on(directory: Path, *arguments: str) -> Iterator[redis.Redis]:
    """A redis-server that starts from a directory."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("there is no redis-server to read it: apt-get install redis-server brings one")
    port = free_port()
    process = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "", *arguments],
        stdout=subprocess.DEVNULL,
    )
    with client_of(process, port) as client:
        yield client


def small_data(path: Path) -> None:
    """A data directory that a Headrace server wrote, with a bit of everything."""
    path.mkdir()
    with ServerProcess(path) as server:
        client = server.client()
        for number in range(1, 251):
            client.xadd("devmsg", {"dev": number % 3, "temp": 20 + number / 4}, id=f"{number}-1")
        client.xadd("odd/name:ü", {"a": "", "b": "\n"}, id="1-1")
        client.xgroup_create("devmsg", "workers", "0")
        client.xreadgroup("workers", "ann", {"devmsg": ">"}, count=5)
        client.set("text", "x")
        client.rpush("list", "a", "b")
        other = redis.Redis(port=server.port, db=3)
        other.xadd("alarms", {"level": b"\xff\x00"}, id="7-7")
        assert server.stop(signal.SIGTERM) == 0


def picture(client: redis.Redis) -> dict[str, Any]:
    """What a server says of the small data."""
    return {
        "devmsg": client.xrange("devmsg"),
        "odd": client.xrange("odd/name:ü"),
        "groups": [
            (each["name"], each["pending"], each["last-delivered-id"]) for each in client.xinfo_groups("devmsg")
        ],
        "pending": [each["message_id"] for each in client.xpending_range("devmsg", "workers", "-", "+", 10)],
        "text": client.get("text"),
        "list": client.lrange("list", 0, -1),
    }


# --- there and back ------------------------------------------------------------------------------------------------


def test_every_type_goes_from_rdb_to_append_only_files_and_back(tmp_path: Path) -> None:
    (tmp_path / "all.rdb").write_bytes(written(sample_keys()))
    output("convert", tmp_path / "all.rdb", tmp_path / "data", "--to", "aof")
    assert "is sound" in output("check", tmp_path / "data")
    output("convert", tmp_path / "data", tmp_path / "back.rdb")
    assert keys_of(tmp_path / "back.rdb") == keys_of(tmp_path / "all.rdb")


def test_a_redis_server_starts_from_what_was_converted(tmp_path: Path) -> None:
    small_data(tmp_path / "data")
    with ServerProcess(tmp_path / "data") as server:
        expected = picture(redis.Redis(port=server.port, protocol=2))
        assert server.stop(signal.SIGTERM) == 0
    (tmp_path / "rdb").mkdir()
    output("convert", tmp_path / "data", tmp_path / "rdb" / "dump.rdb", "--rdb-version", "7.0")
    with redis_on(tmp_path / "rdb") as client:
        assert picture(client) == expected
    output("convert", tmp_path / "data", tmp_path / "aof", "--to", "aof", "--rdb-version", "10")
    with redis_on(tmp_path / "aof", "--appendonly", "yes", "--appendfsync", "always") as client:
        assert picture(client) == expected
        client.xadd("devmsg", {"after": 1})
    again = told("convert", tmp_path / "aof", tmp_path / "again.rdb")
    assert (again["streams"], again["entries"], again["left_out"]) == (3, 253, [])


@pytest.mark.parametrize("version", ["redis-7.0.15", "redis-8.9"])
def test_the_directories_of_real_servers_are_converted_whole(version: str, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in (GOLDEN / version).rglob("*") if path.is_file()}
    done = told("convert", GOLDEN / version, tmp_path / "out.rdb")
    assert done["left_out"] == []
    assert len(keys_of(tmp_path / "out.rdb")) == done["keys"] > 0
    assert {path.name: path.read_bytes() for path in (GOLDEN / version).rglob("*") if path.is_file()} == before


def test_streams_go_to_parquet_and_back_and_the_rest_is_told(tmp_path: Path) -> None:
    small_data(tmp_path / "data")
    done = told("convert", tmp_path / "data", tmp_path / "archive", "--to", "parquet")
    assert (done["keys"], done["streams"], done["entries"]) == (5, 3, 252)
    assert sorted(done["left_out"]) == [
        "1 group of the stream devmsg in database 0: workers",
        "the list list in database 0, which is no stream",
        "the string text in database 0, which is no stream",
    ]
    names = sorted(str(path.relative_to(tmp_path / "archive")) for path in (tmp_path / "archive").rglob("*.parquet"))
    assert names == ["db3/alarms.parquet", "devmsg.parquet", "odd%2Fname:%C3%BC.parquet"]
    output("convert", tmp_path / "archive", tmp_path / "back.rdb")
    output("convert", tmp_path / "data", tmp_path / "whole.rdb")
    back, whole = (read_streams(tmp_path / name) for name in ("back.rdb", "whole.rdb"))
    assert back == whole
    assert len(back) == 3


def read_streams(path: Path) -> dict[tuple[int, bytes], list[tuple[str, list[bytes]]]]:
    return {
        (record.db, record.key): [(str(id), fields) for id, fields in record.value.range()]
        for record in RdbFileReader(path.read_bytes())
        if isinstance(record, LoadedKey) and isinstance(record.value, Stream)
    }


# --- what is told --------------------------------------------------------------------------------------------------


def test_what_an_older_server_cannot_hold_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with ServerProcess(tmp_path / "data") as server:
        client = server.client()
        client.xadd("devmsg", {"a": 1})
        client.execute_command("XADD", "sent", "IDMP", "pump", "1", "*", "a", "1")
        assert server.stop(signal.SIGTERM) == 0
    done = headrace("convert", tmp_path / "data", tmp_path / "old.rdb", "--rdb-version", "7.0")
    assert done.returncode == 0
    assert (
        b"Not carried over: of stream sent in database 0: what its producers have sent, for Redis 7.0." in done.stderr
    )
    assert b"devmsg" not in done.stderr
    assert b"1 thing could not be carried over" in done.stdout
    assert told("convert", tmp_path / "data", tmp_path / "new.rdb")["left_out"] == []


def with_library(code: bytes) -> bytes:
    return b"REDIS0011" + b"\xf5" + bytes([0x40, len(code)]) + code + b"\x00\x01a\x01b" + b"\xff" + bytes(8)


def test_a_library_of_functions_is_carried_over(tmp_path: Path) -> None:
    code = b"#!lua name=mine\nredis.register_function('one', function() return 1 end)"
    (tmp_path / "functions.rdb").write_bytes(with_library(code))
    done = told("convert", tmp_path / "functions.rdb", tmp_path / "out.rdb")
    assert (done["keys"], done["left_out"]) == (1, [])
    assert code in (tmp_path / "out.rdb").read_bytes()


def test_a_library_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "functions.rdb").write_bytes(with_library(b"#!lua name=mine\nreturn 1"))
    sentence = refusal("convert", tmp_path / "functions.rdb", tmp_path / "out.rdb")
    assert "a library of functions at offset 9 that cannot be loaded" in sentence
    assert not (tmp_path / "out.rdb").exists()


def test_the_end_that_a_crash_tore_off_is_not_read_and_told(tmp_path: Path) -> None:
    small_data(tmp_path / "data")
    (increment,) = (tmp_path / "data" / "appendonlydir").glob("*.incr.aof")
    whole = increment.read_bytes().rstrip(b"\x00")
    increment.write_bytes(whole[:-5])
    done = headrace("convert", tmp_path / "data", tmp_path / "out.rdb")
    assert done.returncode == 0
    assert b"are not read" in done.stderr
    assert increment.read_bytes() == whole[:-5]
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    increment.write_bytes(damaged)
    assert "is damaged" in refusal("convert", tmp_path / "data", tmp_path / "out2.rdb")
    assert not (tmp_path / "out2.rdb").exists()


def test_what_cannot_be_converted_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "all.rdb").write_bytes(written(sample_keys()))
    (tmp_path / "there.rdb").write_bytes(b"mine")
    assert "is already there" in refusal("convert", tmp_path / "all.rdb", tmp_path / "there.rdb")
    assert "There is no file" in refusal("convert", tmp_path / "none.rdb", tmp_path / "out.rdb")
    assert "is damaged" in refusal("convert", tmp_path / "there.rdb", tmp_path / "out.rdb")
    (tmp_path / "empty").mkdir()
    assert "There is no data" in refusal("convert", tmp_path / "empty", tmp_path / "out.rdb")
    for arguments in (["out"], ["out", "--to", "xml"], ["out.rdb", "--rdb-version", "6.0"]):
        done = headrace("convert", tmp_path / "all.rdb", *arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out.rdb").exists()


def test_what_parquet_cannot_hold_leaves_no_half_archive(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with ServerProcess(tmp_path / "data") as server:
        client = server.client()
        client.xadd("first", {"a": 1})
        client.execute_command("XADD", "twice", "*", "a", "1", "a", "2")
        assert server.stop(signal.SIGTERM) == 0
    sentence = refusal("convert", tmp_path / "data", tmp_path / "archive", "--to", "parquet")
    assert "has the field a twice" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_directory_that_a_server_works_in_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with ServerProcess(tmp_path / "data") as server:
        sentence = refusal("convert", tmp_path / "data", tmp_path / "out.rdb")
        assert f"pid {server.process.pid}" in sentence
        assert "stop that" in sentence
