"""Commands, settings and signals about what is on disk, on a real server; each is followed by a look at the files."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from support.filled_server import assert_filled, children_of, fill, kill
from support.patience import await_that
from support.server_process import ServerProcess, run_to_its_end

REWRITTEN = "Background AOF rewrite finished successfully"


def persistence(client: redis.Redis) -> dict[str, Any]:
    info: dict[str, Any] = client.info("persistence")
    return info


def increments(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / "appendonlydir").glob("*.incr.aof")))


@contextmanager
def stopped_child(server: ServerProcess) -> Iterator[None]:
    """Stop the one child that the server has, and let it go on afterwards."""
    await_that(lambda: children_of(server))
    (child,) = children_of(server)
    os.kill(child, signal.SIGSTOP)
    try:
        yield
    finally:
        if child in children_of(server):
            os.kill(child, signal.SIGCONT)


# --- snapshots ---------------------------------------------------------------------------------------------------


def test_save_and_lastsave(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        before = client.execute_command("LASTSAVE")
        client.xadd("s", {"f": "v"}, id="1-1")
        assert persistence(client)["rdb_changes_since_last_save"] == 1
        assert client.save() is True
        assert persistence(client)["rdb_changes_since_last_save"] == 0
        assert persistence(client)["rdb_saves"] == 1
        assert client.execute_command("LASTSAVE") >= before
        assert (tmp_path / "dump.rdb").read_bytes().startswith(b"REDIS")
        kill(server)
    assert b"SAVE" not in increments(tmp_path)
    snapshot = (tmp_path / "dump.rdb").read_bytes()
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert client.xlen("s") == 1
    assert (tmp_path / "dump.rdb").read_bytes() == snapshot


def test_children_wait_for_each_other(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        fill(server, 1, 100_001)
        client.execute_command("BGREWRITEAOF")
        with stopped_child(server):
            info = persistence(client)
            assert (info["aof_rewrite_in_progress"], info["aof_rewrite_scheduled"]) == (1, 0)
            assert info["aof_current_rewrite_time_sec"] >= 0
            with pytest.raises(redis.ResponseError, match="rewriting already in progress"):
                client.execute_command("BGREWRITEAOF")
            with pytest.raises(redis.ResponseError, match="Another child process is active"):
                client.execute_command("BGSAVE")
            client.execute_command("BGSAVE", "SCHEDULE")
        await_that(lambda: persistence(client)["rdb_saves"] == 1)
        assert REWRITTEN in server.log
        assert (tmp_path / "dump.rdb").exists()

        client.execute_command("BGSAVE")
        with stopped_child(server):
            info = persistence(client)
            assert info["rdb_bgsave_in_progress"] == 1
            assert info["current_save_keys_total"] == 1
            for command in ("SAVE", "BGSAVE"):
                with pytest.raises(redis.ResponseError, match="Background save already in progress"):
                    client.execute_command(command)
            client.execute_command("BGREWRITEAOF")
            assert persistence(client)["aof_rewrite_scheduled"] == 1
        await_that(lambda: persistence(client)["aof_rewrites"] == 2)
        with pytest.raises(redis.ResponseError, match="syntax error"):
            client.execute_command("BGSAVE", "NOW")
        kill(server)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 100_001)


def test_in_a_transaction_saving_and_rewriting_wait_for_its_end(tmp_path: Path) -> None:
    """A base with half of a transaction would repeat that half, because the effects come at the end."""
    with ServerProcess(tmp_path) as server, server.client() as client:
        with server.raw() as raw:
            assert raw.run("MULTI") == b"+OK\r\n"
            for words in (("RPUSH", "l", "a"), ("BGREWRITEAOF",), ("BGSAVE",), ("RPUSH", "l", "b")):
                assert raw.run(*words) == b"+QUEUED\r\n"
            assert raw.run("EXEC") == (
                b"*4\r\n:1\r\n+Background append only file rewriting scheduled\r\n"
                b"+Background saving scheduled\r\n:2\r\n"
            )
        await_that(lambda: persistence(client)["rdb_saves"] == 1 and persistence(client)["aof_rewrites"] == 1)
        kill(server)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert client.lrange("l", 0, -1) == ["a", "b"]
        kill(server)
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.client() as client:
        assert client.lrange("l", 0, -1) == ["a", "b"]


def test_a_save_point_saves_by_itself(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no", "--save", "1 2") as server, server.client() as client:
        client.xadd("s", {"f": "v"})
        client.xadd("s", {"f": "v"})
        server.await_log("2 changes in 1 seconds. Saving...")
        await_that(lambda: persistence(client)["rdb_saves"] == 1)
        kill(server)
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.client() as client:
        assert client.xlen("s") == 2


def has_rewritten(client: redis.Redis, times: int) -> bool:
    return bool(persistence(client)["aof_rewrites"] == times)


def test_without_append_only_files_a_rewrite_makes_them_of_the_data_of_now(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.client() as client:
        for number in (1, 2):
            client.xadd("s", {"f": "v"}, id=f"{number}-1")
            assert client.bgrewriteaof() is True
            await_that(partial(has_rewritten, client, number))
        client.xadd("s", {"f": "v"}, id="3-1")
        names = {path.name for path in (tmp_path / "appendonlydir").iterdir()}
        assert names == {"appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"}
        assert persistence(client)["aof_enabled"] == 0
    with ServerProcess(tmp_path, "--appendonly", "yes") as server, server.client() as client:
        assert [entry_id for entry_id, _ in client.xrange("s")] == ["1-1", "2-1"]


def test_a_growing_file_is_rewritten_by_itself(tmp_path: Path) -> None:
    arguments = ("--auto-aof-rewrite-min-size", "20kb", "--auto-aof-rewrite-percentage", "100")
    with ServerProcess(tmp_path, *arguments) as server, server.client() as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(1, 1001):
            pipeline.xadd("s", {"f": "v" * 50}, id=f"{number}-1", maxlen=10, approximate=False)
        pipeline.execute()
        await_that(lambda: persistence(client)["aof_rewrites"] >= 1)
        assert "Starting automatic rewriting of AOF on" in server.log
        info = persistence(client)
        assert info["aof_base_size"] == info["aof_current_size"] < 20_000
        client.xadd("s", {"f": "last"}, id="2000-1")
        kill(server)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert [entry_id for entry_id, _ in client.xrange("s")] == [f"{n}-1" for n in (*range(991, 1001), 2000)]


# --- the end -----------------------------------------------------------------------------------------------------


def end(server: ServerProcess, *words: str) -> int:
    with server.raw() as client, pytest.raises(ConnectionError):
        client.run(*words)
    return server.process.wait(20)


@pytest.mark.parametrize(
    ("arguments", "words", "saved"),
    [
        ((), ("SHUTDOWN",), False),
        ((), ("SHUTDOWN", "SAVE"), True),
        (("--save", "3600 1"), ("SHUTDOWN",), True),
        (("--save", "3600 1"), ("SHUTDOWN", "NOSAVE"), False),
    ],
)
def test_shutdown(tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...], saved: bool) -> None:
    with ServerProcess(tmp_path, *arguments) as server:
        fill(server, 1, 101)
        assert end(server, *words) == 0
    assert (tmp_path / "dump.rdb").exists() == saved
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 101)


def test_a_shutdown_that_cannot_save_goes_on_unless_forced(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--save", "3600 1", "--appendonly", "no") as server, server.client() as client:
        (tmp_path / "dump.rdb").mkdir()
        client.xadd("s", {"f": "v"})
        with pytest.raises(redis.ResponseError, match="Errors trying to SHUTDOWN"):
            client.execute_command("SHUTDOWN", "SAVE")
        os.kill(server.process.pid, signal.SIGTERM)
        server.await_log("can't exit")
        assert client.xadd("s", {"f": "v"})
        assert end(server, "SHUTDOWN", "SAVE", "FORCE") == 0


def test_a_shutdown_ends_children_first(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        fill(server, 1, 100_001)
        client.execute_command("BGSAVE")
        (child,) = children_of(server)
        os.kill(child, signal.SIGSTOP)
        assert end(server, "SHUTDOWN", "SAVE") == 0
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    assert list(tmp_path.glob("temp-*")) == []
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.client() as client:
        assert_filled(client, 100_001)


def test_a_shutdown_has_on_disk_what_everysec_had_not_synced(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendfsync", "everysec") as server:
        fill(server, 1, 101)
        assert server.stop() == 0
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 101)


# --- settings ----------------------------------------------------------------------------------------------------


def test_appendonly_can_be_turned_off_and_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        fill(server, 1, 101)
        client.config_set("appendonly", "no")
        assert persistence(client)["aof_enabled"] == 0
        before = increments(tmp_path)
        fill(server, 101, 201)
        assert increments(tmp_path) == before
        client.bgrewriteaof()  # whose child may still write when the files begin anew
        client.config_set("appendonly", "yes")
        assert persistence(client)["aof_enabled"] == 1
        fill(server, 201, 301)
        with server.raw() as raw:
            raw.send([b"MULTI"], [b"RPUSH", b"l", b"a"], [b"CONFIG", b"SET", b"appendonly", b"no"], [b"EXEC"])
            assert [raw.reply() for _ in range(4)][-1] == b"*2\r\n:1\r\n+OK\r\n"
            raw.send([b"MULTI"], [b"RPUSH", b"l", b"b"], [b"CONFIG", b"SET", b"appendonly", b"yes"])
            raw.send([b"RPUSH", b"l", b"c"], [b"EXEC"])
            assert [raw.reply() for _ in range(5)][-1] == b"*3\r\n:2\r\n+OK\r\n:3\r\n"
        kill(server)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 301)
        assert client.lrange("l", 0, -1) == ["a", "b", "c"]


def test_appendfsync_can_be_changed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        for number, policy in enumerate(("no", "everysec", "always", "no", "always")):
            fill(server, 100 * number + 1, 100 * number + 101)
            client.config_set("appendfsync", policy)
            assert client.config_get("appendfsync") == {"appendfsync": policy}
        kill(server)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 501)


def test_dir_can_be_changed_where_nothing_is_appended_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with ServerProcess(tmp_path, "--enable-protected-configs", "yes") as server, server.client() as client:
        with pytest.raises(redis.ResponseError, match="set appendonly to no first"):
            client.config_set("dir", str(other))
        assert client.config_get("dir") == {"dir": str(tmp_path)}
        assert Path(f"/proc/{server.process.pid}/cwd").readlink() == tmp_path
        client.config_set("dir", str(tmp_path))
        client.config_set("appendonly", "no")
        client.config_set("dir", str(other))
        client.config_set("dbfilename", "other.rdb")
        client.xadd("s", {"f": "v"})
        client.save()
        assert (other / "other.rdb").exists()
        assert not (tmp_path / "dump.rdb").exists()
        ended = run_to_its_end("serve", "--dir", str(other), "--port", "0", "--unixsocket", "x", directory=tmp_path)
        assert ended.returncode == 1
        assert b"is in use by another process" in ended.stderr


# --- loading again -----------------------------------------------------------------------------------------------


def test_debug_reload_and_loadaof(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--enable-debug-command", "yes") as server, server.client() as client:
        with pytest.raises(redis.ResponseError, match="no snapshot to load"):
            client.execute_command("DEBUG", "RELOAD", "NOSAVE")
        fill(server, 1, 101)
        client.xgroup_create("s", "g", "0")
        client.xreadgroup("g", "c", {"s": ">"}, count=10)
        client.set("k", "v")
        for words in (("RELOAD",), ("LOADAOF",), ("RELOAD",)):
            client.execute_command("DEBUG", *words)
            assert_filled(client, 101)
            assert client.xpending("s", "g")["pending"] == 10
        client.delete("k")
        client.execute_command("DEBUG", "LOADAOF")
        assert client.get("k") is None
        client.execute_command("DEBUG", "RELOAD", "NOSAVE")
        assert client.get("k") == "v"
        client.xadd("s", {"f": "v"}, id="101-1")
        client.config_set("appendonly", "no")
        with pytest.raises(redis.ResponseError, match="appendonly is no"):
            client.execute_command("DEBUG", "LOADAOF")
        client.config_set("appendonly", "yes")
        kill(server)
    assert b"DEBUG" not in increments(tmp_path)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert_filled(client, 102)
        assert client.get("k") == "v"


# --- waiting -----------------------------------------------------------------------------------------------------


def test_waitaof(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.raw() as client, server.raw() as other:
        assert client.run("XADD", "s", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        assert client.run("WAITAOF", 1, 0, 0) == b"*2\r\n:1\r\n:0\r\n"
        assert client.run("WAITAOF", 0, 1, 10) == b"*2\r\n:1\r\n:0\r\n"
        for words, text in (
            ((2, 0, 0), b"-ERR value is out of range, must be between 0 and 1"),
            ((1, -1, 0), b"-ERR value is out of range, must be positive"),
            ((1, 0, -1), b"-ERR timeout is negative"),
        ):
            assert client.run("WAITAOF", *words).startswith(text)

        client.run("CONFIG", "SET", "appendfsync", "everysec")
        client.run("XADD", "s", "2-1", "f", "v")
        assert client.run("WAITAOF", 1, 0, 0) == b"*2\r\n:1\r\n:0\r\n"

        client.run("CONFIG", "SET", "appendfsync", "no")
        client.run("XADD", "s", "3-1", "f", "v")
        assert client.run("WAITAOF", 1, 0, 50) == b"*2\r\n:0\r\n:0\r\n"
        client.send([b"MULTI"], [b"XADD", b"s", b"4-1", b"f", b"v"], [b"WAITAOF", b"1", b"0", b"0"], [b"EXEC"])
        assert [client.reply() for _ in range(4)][-1] == b"*2\r\n$3\r\n4-1\r\n*2\r\n:0\r\n:0\r\n"
        client.send([b"WAITAOF", b"1", b"0", b"0"])
        await_that(lambda: b"blocked_clients:1" in other.run("INFO", "clients"))
        other.run("CONFIG", "SET", "appendfsync", "always")
        assert client.reply() == b"*2\r\n:1\r\n:0\r\n"

        other.run("CONFIG", "SET", "appendfsync", "no")
        other.run("XADD", "s", "5-1", "f", "v")
        client.send([b"WAITAOF", b"1", b"0", b"0"])
        await_that(lambda: b"blocked_clients:1" in other.run("INFO", "clients"))
        other.run("CONFIG", "SET", "appendonly", "no")
        assert client.reply() == b"*2\r\n:1\r\n:0\r\n"
        assert client.run("WAITAOF", 1, 0, 0).startswith(
            b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled"
        )
        assert client.run("WAITAOF", 0, 0, 0) == b"*2\r\n:0\r\n:0\r\n"


def test_info_has_the_fields_of_redis(tmp_path: Path, redis_server: redis.Redis) -> None:
    redis_server.config_set("appendonly", "yes")
    try:
        theirs = redis_server.info("persistence")
    finally:
        redis_server.config_set("appendonly", "no")
    with ServerProcess(tmp_path) as server, server.client() as client:
        ours = persistence(client)
    assert set(theirs) - set(ours) == set()
    assert {name for name in theirs if type(theirs[name]) is not type(ours[name])} == set()


# --- the start ---------------------------------------------------------------------------------------------------


def fill_more_and_more(directory: Path) -> Iterator[int]:
    """Add entries and give their number, until a start takes long enough for what a test wants to see."""
    for begin in range(1, 4_000_000, 250_000):
        with ServerProcess(directory) as server:
            fill(server, begin, begin + 250_000)
            kill(server)
        yield begin + 250_000 - 1
    raise AssertionError("no start took long enough")


def test_while_data_is_loading_clients_are_told(tmp_path: Path) -> None:
    for entries in fill_more_and_more(tmp_path):
        starting = ServerProcess(tmp_path)
        try:
            asked = ask_while_loading(starting)
            with starting.client() as client:
                assert client.xlen("s") == entries
                assert persistence(client)["loading"] == 0
        finally:
            kill(starting)
        if asked:
            break


def ask_while_loading(server: ServerProcess) -> int:
    """Return how many times a client was told that data is loading."""
    asked = 0
    while "Ready" not in server.log:
        try:
            with server.raw() as client:
                info = client.run("INFO", "persistence")
                if b"loading:1" not in info or b"loading_total_bytes" not in info:
                    continue
                ping, added = client.run("PING"), client.run("XADD", "other", "*", "f", "v")
        except ConnectionError:
            continue
        for name in (b"start_time", b"total_bytes", b"loaded_bytes", b"loaded_perc", b"eta_seconds"):
            assert b"loading_" + name in info
        if ping != b"+PONG\r\n":
            assert ping == b"-LOADING Redis is loading the dataset in memory\r\n"
            asked += 1
            assert added.startswith((b"-LOADING", b"$"))
    return asked


def test_a_signal_while_loading_ends_it_and_changes_nothing(tmp_path: Path) -> None:
    for _ in fill_more_and_more(tmp_path):
        before = contents(tmp_path / "appendonlydir")
        starting = ServerProcess(tmp_path)
        await_that(partial(answers, starting))
        assert starting.stop() == 0
        if "Ready" not in starting.log:
            assert contents(tmp_path / "appendonlydir") == before
            break


def answers(server: ServerProcess) -> bool:
    try:
        with server.raw() as client:
            return bool(client.run("INFO", "persistence"))
    except ConnectionError:
        return False


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_a_process_that_died_was_writing_is_removed_and_nothing_else(tmp_path: Path) -> None:
    appended = tmp_path / "appendonlydir"
    appended.mkdir()
    ours = [
        tmp_path / "temp-4711.rdb",
        tmp_path / "temp-bgsave-4711.rdb",
        tmp_path / "temp-save-4711.rdb",
        appended / "temp-rewriteaof-4711.rdb",
        appended / "temp-appendonly.aof.manifest",
    ]
    kept = [tmp_path / "temp-notes.rdb", tmp_path / "temp-bgsave-x.rdb", appended / "temp.aof", tmp_path / "temp-1.txt"]
    for path in (*ours, *kept):
        path.write_bytes(b"x")
    with ServerProcess(tmp_path):
        assert [path for path in ours if path.exists()] == []
        assert [path for path in kept if not path.exists()] == []


def test_a_directory_that_cannot_be_loaded_is_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        fill(server, 1, 101)
        kill(server)
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_bytes(b"nonsense\n")
    ended = run_to_its_end("serve", "--port", "0", "--unixsocket", "x", directory=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"headrace: The manifest ")
    assert ended.stderr.count(b"\n") == 1
    assert manifest.read_bytes() == b"nonsense\n"


def test_a_snapshot_that_is_being_written_stays_in_the_directory_where_it_began(tmp_path: Path) -> None:
    """Once it was looked for in the new directory, and writes were refused because it was not there."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    arguments = ("--appendonly", "no", "--save", "3600 1", "--enable-protected-configs", "yes")
    with ServerProcess(tmp_path / "first", *arguments) as server, server.client() as client:
        client.set("key", "value")
        for command in ("BGSAVE", "BGREWRITEAOF"):
            client.config_set("dir", str(tmp_path / "first"))
            client.execute_command(command)
            client.config_set("dir", str(tmp_path / "second"))
            await_that(lambda: not persistence(client)["rdb_bgsave_in_progress"])
            await_that(lambda: not persistence(client)["aof_rewrite_in_progress"])
        assert persistence(client)["rdb_last_bgsave_status"] == "ok"
        assert persistence(client)["aof_last_bgrewrite_status"] == "ok"
        assert client.set("key", "another value")
        assert not list((tmp_path / "second").rglob("*.rdb"))
        assert (tmp_path / "first" / "dump.rdb").exists()
