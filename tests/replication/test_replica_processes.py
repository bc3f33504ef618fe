"""`headrace serve --replicaof`: real processes, killed, over TLS, with a full disk, and in circles."""

import shutil
import signal
from pathlib import Path

import pytest
import redis

from support.certificates import issue
from support.patience import await_that
from support.ports import free_port
from support.raw_client import port_of
from support.replication.redis_master import offset_of, redis_master
from support.server_process import ServerProcess
from support.storage.small_disk import small_file_system

REQUIRED = "pw"


def field(server: ServerProcess, name: str) -> object:
    with server.client() as client:
        return client.info("replication").get(name)


def await_offset(server: ServerProcess, master: redis.Redis) -> None:
    """Wait until a replica has all that its master has done."""
    offset = offset_of(master)
    await_that(lambda: field(server, "master_link_status") == "up")
    await_that(lambda: int(str(field(server, "slave_repl_offset"))) >= offset)


def following(directory: Path, master: redis.Redis, *settings: str) -> ServerProcess:
    directory.mkdir(exist_ok=True)
    return ServerProcess(directory, "--replicaof", f"127.0.0.1 {port_of(master)}", *settings)


def test_a_replica_that_is_killed_continues(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master") as master:
        for count in range(3):
            with following(tmp_path / "replica", master) as replica:
                for number in range(200):
                    master.xadd("s", {"n": number}, f"{count + 1}-{number + 1}")
                await_offset(replica, master)
                master.wait(1, 0)
                replica.stop(signal.SIGKILL)
        with following(tmp_path / "replica", master) as replica, replica.client() as client:
            await_offset(replica, master)
            assert client.xlen("s") == 600
        assert int(master.info("stats")["sync_full"]) == 1


def test_it_becomes_a_master_and_follows_again(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master") as master, ServerProcess(tmp_path) as server, server.client() as client:
        client.set("own", "v")
        master.set("theirs", "v")
        client.replicaof("127.0.0.1", port_of(master))
        await_offset(server, master)
        assert (client.get("own"), client.get("theirs")) == (None, "v")
        client.replicaof("NO", "ONE")
        client.set("own", "again")
        assert client.info("replication")["master_replid2"] == master.info("replication")["master_replid"]
        client.replicaof("127.0.0.1", port_of(master))
        await_that(lambda: field(server, "master_link_status") == "up" and client.get("own") is None)
        assert client.get("theirs") == "v"


def test_a_former_master_says_how_much_its_successor_never_got(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path) as old, ServerProcess(tmp_path / "other") as new:
        with old.client() as client, new.client() as other:
            client.xadd("s", {"n": 0})
            other.replicaof("127.0.0.1", old.port)
            await_that(lambda: field(new, "master_link_status") == "up")
            other.replicaof("NO", "ONE")
            for number in range(3):
                client.xadd("s", {"n": number})
            client.execute_command("SELECT", 3)
            client.set("k", "v")
            other.xadd("t", {"n": 0})
            old.stop(signal.SIGKILL)
        with ServerProcess(tmp_path, "--replicaof", f"127.0.0.1 {new.port}") as again, again.client() as client:
            again.await_log(f"127.0.0.1:{new.port} never got 4 effects of ours")
            await_that(lambda: field(again, "master_link_status") == "up")
            assert (client.xlen("s"), client.xlen("t")) == (1, 1)


def test_a_server_that_is_told_to_follow_itself_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        client.set("k", "v")
        client.replicaof("localhost", server.port)
        server.await_log("is this server itself")
        assert "is this server itself" in str(field(server, "master_link_error"))
        assert client.get("k") == "v"


def test_two_servers_that_follow_each_other_say_so(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    nobody = ("--replicaof", f"127.0.0.1 {free_port()}")
    with ServerProcess(tmp_path, *nobody) as one, ServerProcess(tmp_path / "other", *nobody) as other:
        for server, master in ((one, other), (other, one)):
            with server.client() as client:
                client.replicaof("127.0.0.1", master.port)
        one.await_log(f"is itself a replica of 127.0.0.1:{one.port} and has no link to its master")
        other.await_log(f"is itself a replica of 127.0.0.1:{other.port} and has no link to its master")


def test_a_snapshot_for_which_there_is_no_room(tmp_path: Path) -> None:
    with (
        small_file_system(tmp_path / "small") as small_disk,
        redis_master(tmp_path / "master", "--rdbcompression", "no") as master,
        ServerProcess(tmp_path, "--dir", str(small_disk), "--appendfsync", "everysec") as server,
        server.client() as client,
    ):
        client.set("k", "kept")
        master.set("large", b"x" * 3_000_000)
        client.replicaof("127.0.0.1", port_of(master))
        server.await_log("cannot keep the snapshot of the master in")
        assert "No space left on device" in str(field(server, "master_link_error"))
        assert client.get("k") == "kept"
        master.set("large", "small")
        await_that(lambda: field(server, "master_link_status") == "up" and client.get("large") == "small")
        assert not list(small_disk.rglob("temp-*"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")
def test_a_master_that_wants_tls_and_a_password(tmp_path: Path) -> None:
    issue(tmp_path, "ca", "server", "client")
    issue(tmp_path, "other-ca", "stranger")
    port = free_port()
    trust = ("--tls-ca-cert-file", str(tmp_path / "ca.crt"))
    served = (*trust, "--tls-cert-file", str(tmp_path / "server.crt"), "--tls-key-file", str(tmp_path / "server.key"))
    with (
        redis_master(
            tmp_path / "master", "--tls-port", str(port), *served, "--requirepass", REQUIRED, password=REQUIRED
        ) as master,
        ServerProcess(
            tmp_path,
            *("--replicaof", f"127.0.0.1 {port}", "--tls-replication", "yes", "--masterauth", "wrong", *trust),
            *("--tls-cert-file", str(tmp_path / "stranger.crt"), "--tls-key-file", str(tmp_path / "stranger.key")),
        ) as replica,
        replica.client() as client,
    ):
        master.set("k", "v")
        await_that(lambda: field(replica, "master_link_error"))
        client.config_set("tls-cert-file", str(tmp_path / "client.crt"), "tls-key-file", str(tmp_path / "client.key"))
        replica.await_log("refused the password of masterauth: 'WRONGPASS")
        client.config_set("masterauth", REQUIRED)
        await_offset(replica, master)
        assert client.get("k") == "v"
