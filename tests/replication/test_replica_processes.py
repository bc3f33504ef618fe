"""`headrace serve --replicaof`: real processes, killed, over TLS, with a full disk, and in circles."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from support.certificates import issue
from support.patience import await_that
from support.ports import free_port
from support.raw_client import port_of
from support.replication.redis_master import offset_of, redis_master
from support.replication.server_pair import AT_ONCE
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
    with ServerProcess(tmp_path, *AT_ONCE) as old, ServerProcess(tmp_path / "other", *AT_ONCE) as new:
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


@contextmanager
def several(tmp_path: Path, count: int) -> Iterator[list[ServerProcess]]:
    with ExitStack() as stack:
        servers = []
        for number in range(count):
            (tmp_path / f"{number}").mkdir()
            servers.append(stack.enter_context(ServerProcess(tmp_path / f"{number}", *AT_ONCE)))
        yield servers


def follow(server: ServerProcess, master: ServerProcess) -> None:
    with server.client() as client:
        client.replicaof("127.0.0.1", master.port)


@pytest.mark.parametrize(("count", "links_are_up"), [(2, False), (3, True)])
def test_each_server_of_a_circle_says_so(tmp_path: Path, count: int, links_are_up: bool) -> None:
    with several(tmp_path, count) as servers:
        with servers[0].client() as client:
            client.set("k", "v")
        pairs = list(pairwise([*servers, servers[0]]))  # the last one closes the circle
        for master, server in pairs:
            follow(server, master)
            if links_are_up and server is not servers[0]:
                await_that(partial(lambda each: field(each, "master_link_status") == "up", server))
        over = " over 1 other server" if count == 3 else ""
        for master, server in pairs:
            circle = f"127.0.0.1:{master.port} follows this server{over}: one server of this circle must"
            server.await_log(circle)
            await_that(partial(lambda each, text: text in str(field(each, "master_link_error")), server, circle))
        with servers[0].client() as client:
            client.replicaof("NO", "ONE")
            client.set("k", "w")
        for server in servers[1:]:
            with server.client() as client:
                await_that(partial(lambda each: each.get("k") == "w", client))


def test_a_former_master_counts_what_is_dropped_however_often_both_have_started_since(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path, *AT_ONCE) as old, old.client() as client:
        client.xadd("s", {"n": 0})
        with ServerProcess(tmp_path / "other", *AT_ONCE) as new, new.client() as other:
            other.replicaof("127.0.0.1", old.port)
            await_that(lambda: field(new, "master_link_status") == "up")
            other.replicaof("NO", "ONE")
            other.xadd("t", {"n": 0})
        client.xadd("s", {"n": 1})
    with ServerProcess(tmp_path, *AT_ONCE) as old, old.client() as client:  # another history
        client.xadd("s", {"n": 2})
    for _ in range(2):
        with ServerProcess(tmp_path / "other", *AT_ONCE) as new, new.client() as other:
            other.xadd("t", {"n": 1})
    with (
        ServerProcess(tmp_path / "other", *AT_ONCE) as new,
        ServerProcess(tmp_path, "--replicaof", f"127.0.0.1 {new.port}") as again,
        again.client() as client,
    ):
        again.await_log(f"127.0.0.1:{new.port} never got 2 effects of ours")
        await_that(lambda: field(again, "master_link_status") == "up")
        assert (client.xlen("s"), client.xlen("t")) == (1, 3)


def test_a_former_master_that_started_twice_and_wrote_nothing_continues(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path / "other", *AT_ONCE) as new, new.client() as other:
        with ServerProcess(tmp_path, *AT_ONCE) as old, old.client() as client:
            client.xadd("s", {"n": 0})
            other.replicaof("127.0.0.1", old.port)
            await_that(lambda: field(new, "master_link_status") == "up" and other.xlen("s") == 1)
            other.replicaof("NO", "ONE")
        for _ in range(2):
            with ServerProcess(tmp_path):
                pass
        other.xadd("s", {"n": 1})
        with ServerProcess(tmp_path, "--replicaof", f"127.0.0.1 {new.port}") as again, again.client() as client:
            await_that(lambda: client.xlen("s") == 2)
            assert other.info("stats")["sync_full"] == 0


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
