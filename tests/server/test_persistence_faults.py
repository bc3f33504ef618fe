"""A real server on a disk that refuses: writes are refused with a reason, reads continue, and it resumes by itself.

The disk is full (a small tmpfs; or a limit on the size of files), or refuses below the server (storage/faulty_disk.c),
or the directory may not be written to. After each, everything that was acknowledged is there.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path

import pytest
import redis

from support.filled_server import assert_filled, children_of, fill
from support.patience import PATIENCE_S
from support.server_process import ServerProcess, run_to_its_end
from support.storage.faulty_disk import FaultyDisk
from support.storage.small_disk import small_file_system

# Root may write anywhere; a server that has given up these two capabilities may not.
WITHOUT_OVERRIDE = (
    "-c",
    (
        "import ctypes, os, sys; "
        "[ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) for capability in (1, 2)]; "
        "os.execv(sys.executable, [sys.executable, '-m', 'headrace.cli.main', *sys.argv[1:]])"
    ),
)


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


class Ledger:
    """What a server acknowledged."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.refusals: list[str] = []

    def add(self, server: ServerProcess, value: str = "v") -> bool:
        """Add an entry on a connection of its own; tell whether it was acknowledged."""
        with server.client() as client:
            try:
                self.ids.append(client.xadd("s", {"f": value}))
            except redis.ResponseError as refusal:
                self.refusals.append(str(refusal))
                return False
            return True

    def add_until_refused(self, server: ServerProcess, value: str) -> None:
        for _ in range(2000):
            if not self.add(server, value):
                return
        raise AssertionError("the disk took everything")

    def assert_refused(self, server: ServerProcess) -> None:
        """Writes are refused, reads go on."""
        with server.raw() as client:
            assert client.run("XADD", "s", "*", "f", "v").startswith(b"-MISCONF Errors writing to the AOF file: ")
            assert client.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">").startswith(b"-MISCONF ")
            assert client.run("MULTI") == b"+OK\r\n"
            assert client.run("XADD", "s", "*", "f", "v").startswith(b"-MISCONF ")
            assert client.run("EXEC").startswith(b"-EXECABORT")
            assert int(client.run("XLEN", "s")[1:]) >= len(self.ids)
            assert client.run("PING") == b"+PONG\r\n"
            assert b"aof_last_write_status:err" in client.run("INFO", "persistence")

    def await_service(self, server: ServerProcess) -> None:
        """Writes are accepted again, without anybody's help."""
        await_that(lambda: self.add(server), server)
        with server.client() as client:
            assert client.info("persistence")["aof_last_write_status"] == "ok"

    def assert_kept(self, server: ServerProcess) -> None:
        """Everything that was acknowledged is there; what was told as uncertain may be."""
        with server.client() as client:
            found = [entry_id for entry_id, _ in client.xrange("s")]
        assert set(self.ids) <= set(found)
        assert len(found) <= len(self.ids) + len(self.refusals)


def await_that(happens: Callable[[], object], server: ServerProcess) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline, server.log
        time.sleep(0.05)


def bgsave_ends(server: ServerProcess) -> Callable[[], bool]:
    def ended() -> bool:
        with server.client() as client:
            return not client.info("persistence")["rdb_bgsave_in_progress"]

    return ended


def rewrite_fails(server: ServerProcess) -> Callable[[], bool]:
    """Tell whether a rewrite that was begun has come to nothing."""

    def fails() -> bool:
        with server.client() as client:
            info = client.info("persistence")
            return info["aof_last_bgrewrite_status"] == "err" and not info["aof_rewrite_in_progress"]

    return fails


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("temp-*")]


def kill_and_check(server: ServerProcess, ledger: Ledger, directory: Path, data: Path) -> None:
    server.process.kill()
    server.process.wait(10)
    with ServerProcess(directory, "--dir", str(data)) as again:
        ledger.assert_kept(again)


# --- full --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    with small_file_system(tmp_path / "small") as path:
        yield path


def test_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(small_disk)) as server:
        ledger.add_until_refused(server, "x" * 20_000)
        assert len(ledger.ids) > 10
        assert "No space left on device" in ledger.refusals[0]
        ledger.assert_refused(server)
        with server.client() as client:
            with pytest.raises(redis.ResponseError, match="could not be rewritten"):
                client.bgrewriteaof()
            with pytest.raises(redis.ResponseError, match="could not be written: No space left on device"):
                client.save()
            client.bgsave()
            await_that(bgsave_ends(server), server)
            assert client.info("persistence")["rdb_last_bgsave_status"] == "err"
        assert leftovers(small_disk) == []
        assert not (small_disk / "dump.rdb").exists()
        assert "dump.rdb could not be written: No space left on device" in server.log
        filler.unlink()
        ledger.await_service(server)
        with server.client() as client:
            client.execute_command("DEL", "nothing")
        kill_and_check(server, ledger, tmp_path, small_disk)


def test_a_rewrite_on_a_disk_that_is_too_full_for_it_leaves_everything_as_it_was(
    small_disk: Path, tmp_path: Path
) -> None:
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(small_disk), "--rdbcompression", "no") as server:
        for _ in range(60):
            assert ledger.add(server, "x" * 20_000)
        with server.client() as client:
            client.bgrewriteaof()
            server.await_log("could not be rewritten: No space left on device")
            assert client.info("persistence")["aof_last_bgrewrite_status"] == "err"
        assert leftovers(small_disk) == []
        assert ledger.add(server)
        kill_and_check(server, ledger, tmp_path, small_disk)


def test_files_that_may_not_grow(tmp_path: Path, data: Path) -> None:
    """RLIMIT_FSIZE: half of a write is taken, then none. The system's signal for that must not end the server."""
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        size = sum(len(path.read_bytes().rstrip(b"\0")) for path in (data / "appendonlydir").glob("*.incr.aof"))
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 70, resource.RLIM_INFINITY))
        ledger.add_until_refused(server, "v")
        assert "File too large" in ledger.refusals[0]
        ledger.assert_refused(server)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
        ledger.await_service(server)
        kill_and_check(server, ledger, tmp_path, data)
        assert "was cut off" not in (tmp_path / "stdout.log").read_text()


def test_a_kill_while_the_disk_is_full_loses_nothing_that_was_acknowledged(tmp_path: Path, data: Path) -> None:
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        size = sum(len(path.read_bytes().rstrip(b"\0")) for path in (data / "appendonlydir").glob("*.incr.aof"))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 70, resource.RLIM_INFINITY))
        ledger.add_until_refused(server, "v")
        kill_and_check(server, ledger, tmp_path, data)


# --- refused below -----------------------------------------------------------------------------------------------


def base_of(data: Path) -> str:
    manifest = (data / "appendonlydir" / "appendonly.aof.manifest").read_text()
    (base,) = (line.split()[1] for line in manifest.splitlines() if line.endswith("type b"))
    return base


def descriptors(server: ServerProcess) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def append_files(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "appendonlydir").iterdir())


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_writes_that_fail_are_brought_out_when_they_do_not(
    faulty: FaultyDisk, tmp_path: Path, data: Path, policy: str
) -> None:
    ledger = Ledger()
    with faulty.under(tmp_path, "--dir", str(data), "--appendfsync", policy) as server:
        assert ledger.add(server)
        base = base_of(data)
        faulty.set(write_error=EIO, write_most=20)
        assert not ledger.add(server)
        ledger.assert_refused(server)
        faulty.set(write_error=0)
        ledger.await_service(server)
        assert base_of(data) == base
        kill_and_check(server, ledger, tmp_path, data)


def test_after_a_failed_sync_writes_wait_for_a_new_base(faulty: FaultyDisk, tmp_path: Path, data: Path) -> None:
    ledger = Ledger()
    with faulty.under(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        base, files, opened = base_of(data), append_files(data), descriptors(server)
        faulty.set(sync_error=EIO)
        assert not ledger.add(server)
        assert "Input/output error" in ledger.refusals[0]
        ledger.assert_refused(server)
        syncs = faulty.get("syncs")
        await_that(lambda: faulty.get("syncs") > syncs + 2, server)
        ledger.assert_refused(server)
        assert base_of(data) == base
        faulty.set(sync_error=0)
        ledger.await_service(server)
        assert base_of(data) != base
        assert len(append_files(data)) == len(files)
        assert descriptors(server) <= opened + 1
        kill_and_check(server, ledger, tmp_path, data)


def test_a_new_base_that_cannot_be_put_in_place_leaves_nothing_behind(
    faulty: FaultyDisk, tmp_path: Path, data: Path
) -> None:
    ledger = Ledger()
    with faulty.under(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        files, opened = append_files(data), descriptors(server)
        faulty.set(sync_error=EIO)
        assert not ledger.add(server)
        faulty.set(rename_error=ENOSPC, sync_error=0)
        syncs = faulty.get("syncs")
        await_that(lambda: faulty.get("syncs") > syncs + 4, server)
        ledger.assert_refused(server)
        assert descriptors(server) <= opened + 2
        faulty.set(rename_error=0)
        ledger.await_service(server)
        assert len(append_files(data)) == len(files)
        kill_and_check(server, ledger, tmp_path, data)


@pytest.mark.parametrize("control", ["directory_error", "rename_error", "sync_error"])
def test_a_rewrite_that_the_disk_refuses_somewhere_damages_nothing(
    faulty: FaultyDisk, tmp_path: Path, data: Path, control: str
) -> None:
    ledger = Ledger()
    with faulty.under(tmp_path, "--dir", str(data), "--appendfsync", "no") as server:
        assert ledger.add(server)
        faulty.set(**{control: EIO})
        with server.client() as client:
            client.bgrewriteaof()
            await_that(rewrite_fails(server), server)
        assert "The append-only files could not be rewritten: " in server.log
        server.process.kill()
        server.process.wait(10)
    faulty.set(**{control: 0})
    with faulty.under(tmp_path, "--dir", str(data)) as server:
        ledger.assert_kept(server)
        assert ledger.add(server)
        faulty.set(**{control: EIO})
        with server.client() as client:
            client.bgrewriteaof()
        await_that(rewrite_fails(server), server)
        faulty.set(**{control: 0})
        ledger.await_service(server)
        with server.client() as client:
            client.bgrewriteaof()
        server.await_log("Background AOF rewrite finished")
        assert ledger.add(server)
        kill_and_check(server, ledger, tmp_path, data)


def test_replies_wait_for_the_sync_of_a_real_server(faulty: FaultyDisk, tmp_path: Path, data: Path) -> None:
    with (
        faulty.under(tmp_path, "--dir", str(data)) as server,
        server.raw() as writer,
        server.raw() as reader,
        server.raw() as blocked,
    ):
        blocked.send([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"])
        await_that(lambda: b"blocked_clients:1" in reader.run("INFO", "clients"), server)
        faulty.set(sync_waits=1)
        syncs = faulty.get("syncs")
        writer.send([b"XADD", b"s", b"1-1", b"f", b"v"], [b"PING"])
        await_that(lambda: faulty.get("syncs") > syncs, server)
        reader.send([b"XLEN", b"s"])
        for client in (writer, reader, blocked):
            assert is_silent(client)
        faulty.set(sync_waits=0)
        assert writer.reply() == b"$3\r\n1-1\r\n"
        assert writer.reply() == b"+PONG\r\n"
        assert reader.reply() == b":1\r\n"
        assert b"1-1" in blocked.reply()


def test_a_rewrite_begins_without_holding_clients_while_much_is_synced(
    faulty: FaultyDisk, tmp_path: Path, data: Path
) -> None:
    """BGREWRITEAOF waited on the event loop for the sync of a second's writes: 150 to 250 ms."""
    with (
        faulty.under(tmp_path, "--dir", str(data), "--appendfsync", "everysec") as server,
        server.raw() as client,
        server.client() as other,
    ):
        faulty.set(sync_waits=1)
        other.set("key", b"x" * (8 << 20))
        client.send([b"BGREWRITEAOF"])
        assert client.reply() == b"+Background append only file rewriting started\r\n"
        assert other.info("persistence")["aof_rewrite_in_progress"] == 1
        assert client.run("BGREWRITEAOF").startswith(b"-ERR Background append only file rewriting already")
        assert other.info("persistence")["aof_rewrites"] == 0
        other.set("later", "1")
        faulty.set(sync_waits=0)
        await_that(lambda: other.info("persistence")["aof_rewrites"] == 1, server)
        assert other.info("persistence")["aof_rewrite_in_progress"] == 0
        server.stop(signal.SIGKILL)
    with ServerProcess(tmp_path, "--dir", str(data)) as server, server.client() as client:
        assert client.strlen("key") == 8 << 20
        assert client.get("later") == "1"


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_rewrite_begins_without_holding_readers_while_its_manifest_is_synced(
    faulty: FaultyDisk, tmp_path: Path, data: Path, policy: str
) -> None:
    """BGREWRITEAOF waited on the event loop for three syncs of the manifest and one of the increment."""
    with (
        faulty.under(tmp_path, "--dir", str(data), "--appendfsync", policy) as server,
        server.raw() as writer,
        server.raw() as reader,
    ):
        assert writer.run("SET", "before", "1") == b"+OK\r\n"
        faulty.set(sync_waits=1)
        assert reader.run("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
        assert reader.run("GET", "before") == b"$1\r\n1\r\n"
        writer.send([b"SET", b"later", b"1"])
        if policy == "everysec":
            assert writer.reply() == b"+OK\r\n"
            assert reader.run("PING") == b"+PONG\r\n"
        faulty.set(sync_waits=0)
        if policy == "always":
            assert writer.reply() == b"+OK\r\n"
        await_that(lambda: b"aof_rewrites:1" in reader.run("INFO", "persistence"), server)
        server.stop(signal.SIGKILL)
    with ServerProcess(tmp_path, "--dir", str(data)) as server, server.client() as client:
        assert client.mget("before", "later") == ["1", "1"]


def test_waitaof_waits_for_the_disk_to_recover(faulty: FaultyDisk, tmp_path: Path, data: Path) -> None:
    ledger = Ledger()
    with faulty.under(tmp_path, "--dir", str(data)) as server, server.raw() as waiting, server.raw() as other:
        for name, error in (("write_error", ENOSPC), ("sync_error", EIO)):
            faulty.set(**{name: error})
            assert not ledger.add(server)
            assert waiting.run("WAITAOF", 1, 0, 20) == b"*2\r\n:0\r\n:0\r\n"
            waiting.send([b"WAITAOF", b"1", b"0", b"0"])
            await_that(lambda: b"blocked_clients:1" in other.run("INFO", "clients"), server)
            faulty.set(**{name: 0})
            assert waiting.reply() == b"*2\r\n:1\r\n:0\r\n"
            ledger.await_service(server)
        kill_and_check(server, ledger, tmp_path, data)


def test_a_rewrite_after_one_that_was_to_mend_and_was_ended_keeps_what_came_meanwhile(
    faulty: FaultyDisk, tmp_path: Path, data: Path
) -> None:
    with faulty.under(tmp_path, "--dir", str(data)) as server, server.client() as client:
        fill(server, 1, 101)
        faulty.set(sync_error=EIO)
        assert not Ledger().add(server)
        faulty.set(sync_waits=1, sync_error=0)
        await_that(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 1, server)
        client.config_set("appendonly", "no")
        client.delete("s")
        faulty.set(sync_waits=0)
        client.config_set("appendonly", "yes")
        fill(server, 1, 100_001)
        client.bgrewriteaof()
        await_that(lambda: children_of(server), server)
        (child,) = children_of(server)
        os.kill(child, signal.SIGSTOP)
        fill(server, 100_001, 100_101)
        os.kill(child, signal.SIGCONT)
        server.await_log("Background AOF rewrite finished successfully")
        server.process.kill()
        server.process.wait(10)
    with ServerProcess(tmp_path, "--dir", str(data)) as server, server.client() as client:
        assert_filled(client, 100_101)


def is_silent(client: object) -> bool:
    """Whether nothing has come, and nothing comes for a moment."""
    peer = client._socket  # type: ignore[attr-defined]
    peer.settimeout(0.1)
    try:
        return not peer.recv(1)
    except TimeoutError:
        return True
    finally:
        peer.settimeout(PATIENCE_S)


# --- permission --------------------------------------------------------------------------------------------------


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    for path in paths:
        path.chmod(0o500)
    try:
        yield
    finally:
        for path in paths:
            path.chmod(0o700)


def test_a_directory_that_may_not_be_written_to(tmp_path: Path, data: Path) -> None:
    """What is open is written on; snapshots and rewrites fail in words, and succeed later."""
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(data), launcher=WITHOUT_OVERRIDE) as server, server.client() as client:
        assert ledger.add(server)
        with read_only(data / "appendonlydir", data):
            client.bgrewriteaof()
            await_that(rewrite_fails(server), server)
            with pytest.raises(redis.ResponseError, match="Permission denied"):
                client.save()
            client.bgsave()
            await_that(bgsave_ends(server), server)
            assert client.info("persistence")["rdb_last_bgsave_status"] == "err"
            assert ledger.add(server)
        client.bgrewriteaof()
        server.await_log("Background AOF rewrite finished")
        client.save()
        assert ledger.add(server)
        kill_and_check(server, ledger, tmp_path, data)


def test_a_failed_snapshot_refuses_writes_only_with_save_points_and_is_tried_again(tmp_path: Path, data: Path) -> None:
    arguments = ("--dir", str(data), "--save", "3600 1")
    with ServerProcess(tmp_path, *arguments, launcher=WITHOUT_OVERRIDE) as server, server.client() as client:
        with read_only(data):
            client.bgsave()
            await_that(bgsave_ends(server), server)
            with pytest.raises(redis.ResponseError, match="unable to persist to disk"):
                client.xadd("s", {"f": "v"})
            client.config_set("stop-writes-on-bgsave-error", "no")
            client.xadd("s", {"f": "v"})
            client.config_set("stop-writes-on-bgsave-error", "yes")

        def accepted() -> bool:
            try:
                return bool(client.xadd("s", {"f": "v"}))
            except redis.ResponseError:
                return False

        await_that(accepted, server)


def test_append_only_files_that_somebody_removed_are_written_again(tmp_path: Path, data: Path) -> None:
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        shutil.rmtree(data / "appendonlydir")
        server.await_log("The disk takes what is written again")
        ledger.await_service(server)
        kill_and_check(server, ledger, tmp_path, data)


def test_a_directory_that_somebody_removed_is_missed(tmp_path: Path, data: Path) -> None:
    ledger = Ledger()
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        assert ledger.add(server)
        shutil.rmtree(data)
        await_that(lambda: not ledger.add(server), server)
        assert "No such file or directory" in ledger.refusals[-1]
        ledger.assert_refused(server)
        data.mkdir()
        ledger.await_service(server)
        ended = run_to_its_end("serve", "--dir", str(data), "--port", "0", "--unixsocket", "x", directory=tmp_path)
        assert b"is in use by another process" in ended.stderr
        kill_and_check(server, ledger, tmp_path, data)


def test_a_directory_that_cannot_be_read_is_one_sentence(tmp_path: Path, data: Path) -> None:
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        assert Ledger().add(server)
    for path in (data / "appendonlydir").iterdir():
        path.chmod(0)
    ended = subprocess.run(
        [sys.executable, *WITHOUT_OVERRIDE, "serve", "--port", "0", "--unixsocket", "x"],
        check=False,
        capture_output=True,
        cwd=data,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 1
    assert b"Traceback" not in ended.stderr
    assert ended.stderr.count(b"\n") == 1
    assert b"Permission denied" in ended.stderr


def test_a_second_server_is_refused_in_one_sentence(tmp_path: Path, data: Path) -> None:
    with ServerProcess(tmp_path, "--dir", str(data)) as server:
        ended = run_to_its_end("serve", "--dir", str(data), "--port", "0", "--unixsocket", "x", directory=tmp_path)
        assert ended.returncode == 1
        assert ended.stderr.decode() == (
            f"headrace: The directory {data} is in use by another process (pid {server.process.pid}): stop that, or "
            "choose another directory with --dir.\n"
        )
        assert Ledger().add(server)
