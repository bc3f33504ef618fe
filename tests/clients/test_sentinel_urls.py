"""Urls that name Sentinels: what they may be, and one sentence for each that is wrong."""

import asyncio
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from redis.sentinel import SentinelConnectionPool

import headrace
from headrace.clients.sentinel import make_client
from headrace.clients.urls import is_sentinel, shown, split_urls
from support.certificates import issue
from support.patience import await_that
from support.ports import free_port
from support.server_process import ServerProcess, run_to_its_end


def pool_of(client: redis.Redis) -> SentinelConnectionPool:
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    return pool


def places_of(client: redis.Redis) -> list[tuple[str, int]]:
    options = [each.connection_pool.connection_kwargs for each in pool_of(client).sentinel_manager.sentinels]
    return [(each["host"], each["port"]) for each in options]


def test_commas_between_urls_and_between_sentinels() -> None:
    assert split_urls("redis://a:1, sentinel://b:1,c:2 ,d/n,unix:///x,") == (
        *("redis://a:1", "sentinel://b:1,c:2,d/n", "unix:///x"),
    )
    assert split_urls("redis://a,b") == ("redis://a", "b")  # which is refused
    assert is_sentinel("sentinels://a/n")
    assert not is_sentinel("redis://a")


def test_no_password_is_shown() -> None:
    url = "sentinel://me:secret@a:1,b:2/orders?sentinel_password=secret&socket_timeout=3"
    assert shown(url) == "sentinel://me:***@a:1,b:2/orders?sentinel_password=***&socket_timeout=3"
    assert shown("redis://:a/b@[::1]:6379") == "redis://:***@[::1]:6379"
    assert shown("sentinel://me@a,[::1]:2/orders") == "sentinel://me@a,[::1]:2/orders"
    assert shown("unix://me:secret@/run/x.sock?db=1") == "unix://me:***@/run/x.sock?db=1"
    assert shown("redis://[::1") == "redis://[::1"  # which is refused
    assert shown("me:secret@host") == "me:***@host"
    assert shown("") == ""


def test_every_part_of_a_url_arrives() -> None:
    url = (
        "sentinels://me:s%40crt@a:1,b,[::1]:3/the%20orders/4?sentinel_password=other&ssl_ca_certs=/ca&socket_timeout=3"
    )
    with make_client(url, defaults={"socket_timeout": 1, "protocol": 2}, overrides={"username": "you"}) as client:
        pool = pool_of(client)
        assert places_of(client) == [("a", 1), ("b", 26379), ("::1", 3)]
        assert pool.service_name == "the orders"
        assert pool.is_master
        options = pool.connection_kwargs
        assert (options["username"], options["password"], options["db"]) == ("you", "s@crt", 4)
        assert options["socket_timeout"] == 3
        assert issubclass(pool.connection_class, redis.SSLConnection)
        asking = pool.sentinel_manager.sentinels[0].connection_pool
        assert asking.connection_kwargs["password"] == "other"  # noqa: S105
        assert asking.connection_kwargs["ssl_ca_certs"] == "/ca"
        assert asking.connection_class is redis.SSLConnection


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sentinel://a:1", "lacks the name"),
        ("sentinel://a:1/", "lacks the name"),
        ("sentinel://a:1,:2/orders", "':2' is no place of a Sentinel"),
        ("sentinel:///orders", "'' is no place of a Sentinel"),
        ("sentinel://a:b/orders", "Port"),
        ("sentinel://a:1/orders/x", "the database 'x' is no number"),
        ("sentinel://a:1/orders?socket_timeout=soon", "socket_timeout"),
    ],
)
def test_a_wrong_url_is_one_sentence(url: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        make_client(url)
    done = run_to_its_end("group", "list", "--url", url, directory=tmp_path)
    assert done.returncode == 1
    assert why in done.stderr.decode().replace("\n", " ")
    assert "Traceback" not in done.stderr.decode()


def test_a_server_that_is_no_sentinel_and_one_that_is_not_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        done = run_to_its_end(
            "group", "list", "--url", f"sentinel://127.0.0.1:{server.port}/orders", directory=tmp_path
        )
        assert b"unknown command 'SENTINEL'" in done.stderr.replace(b"\n", b" ")
    done = run_to_its_end("group", "list", "--url", "sentinel://127.0.0.1:1/orders", directory=tmp_path)
    assert b"Sentinels know no master that is up" in done.stderr.replace(b"\n", b" ")


def test_a_server_that_is_a_replica_by_now_is_not_taken_for_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Sentinel that hears late of a failover names the former master."""
    with ServerProcess(tmp_path) as server, make_client("sentinel://127.0.0.1:1/orders") as client:
        manager = pool_of(client).sentinel_manager
        monkeypatch.setattr(manager, "discover_master", lambda _: ("127.0.0.1", server.port))
        assert client.ping()
        with server.client() as direct:
            direct.replicaof("127.0.0.1", 1)
        client.connection_pool.disconnect()
        with pytest.raises(redis.ConnectionError, match="is not the master any more"):
            client.ping()
        with server.client() as direct:
            direct.replicaof("NO", "ONE")
        assert client.ping()


@pytest.mark.skipif(shutil.which("redis-sentinel") is None, reason="there is no redis-sentinel")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")
def test_sentinels_and_servers_that_speak_tls(tmp_path: Path) -> None:
    issue(tmp_path, "ca", "server")
    port, asked = free_port(), free_port()
    speaks = {
        "tls-cert-file": tmp_path / "server.crt",
        "tls-key-file": tmp_path / "server.key",
        "tls-ca-cert-file": tmp_path / "ca.crt",
        "tls-auth-clients": "no",
        "tls-replication": "yes",
    }
    file = tmp_path / "sentinel.conf"
    own = {"port": 0, "tls-port": asked, **speaks, "sentinel monitor": f"orders 127.0.0.1 {port} 1"}
    file.write_text("".join(f"{name} {value}\n" for name, value in own.items()))
    given = (text for name, value in speaks.items() for text in (f"--{name}", str(value)))
    with ServerProcess(tmp_path, "--tls-port", str(port), *given):
        sentinel = subprocess.Popen(["redis-sentinel", str(file)], cwd=tmp_path, stdout=subprocess.DEVNULL)
        try:
            url = f"sentinels://127.0.0.1:{asked}/orders?ssl_ca_certs={tmp_path / 'ca.crt'}"
            with make_client(url) as client:
                await_that(lambda: answers(client))
                client.xadd("s", {"n": 1})
                assert client.xlen("s") == 1
            with headrace.connect(url) as db:
                assert len(db.stream("s")) == 1
                assert asyncio.run(db.stream("s").alen()) == 1
        finally:
            sentinel.kill()
            sentinel.wait()


def answers(client: redis.Redis) -> bool:
    with suppress(redis.ConnectionError):
        return bool(client.ping())
    return False
