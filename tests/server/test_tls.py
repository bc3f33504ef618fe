"""TLS with real clients: which are accepted, which are refused, and certificates that change while the server runs."""

import shutil
import socket
import ssl
from pathlib import Path

import pytest
import redis

from support.certificates import issue, openssl
from support.ports import free_port
from support.server_process import ServerProcess, run_to_its_end

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities; a server and a client of the first, and another server and a stranger of the second."""
    directory = tmp_path_factory.mktemp("certificates")
    issue(directory, "ca", "server", "client")
    issue(directory, "other-ca", "other-server", "stranger")
    openssl("ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key", directory=directory)
    return directory


class TlsServer(ServerProcess):
    """A server with a plain port and one that speaks TLS."""

    def __init__(self, directory: Path, certificates: Path, *arguments: str) -> None:
        self.certificates = certificates
        self.tls_port = free_port()
        super().__init__(
            directory,
            *("--tls-port", str(self.tls_port), "--tls-ca-cert-file", str(certificates / "ca.crt")),
            *("--tls-cert-file", str(certificates / "server.crt"), "--tls-key-file", str(certificates / "server.key")),
            *arguments,
        )

    def tls(self, name: str | None = "client", authority: str = "ca", protocol: int = 2) -> redis.Redis:
        """A client of redis-py with a certificate, that believes an authority."""
        return redis.Redis(
            port=self.tls_port,
            ssl=True,
            ssl_ca_certs=str(self.certificates / f"{authority}.crt"),
            ssl_certfile=str(self.certificates / f"{name}.crt") if name else None,
            ssl_keyfile=str(self.certificates / f"{name}.key") if name else None,
            protocol=protocol,
            retry=None,
        )


def test_redis_py_speaks_tls(tmp_path: Path, certificates: Path) -> None:
    with TlsServer(tmp_path, certificates) as server:
        for protocol in (2, 3):
            with server.tls(protocol=protocol) as client, client.pubsub() as listener:
                client.set("k", b"x" * 3_000_000)
                assert client.get("k") == b"x" * 3_000_000
                pipeline = client.pipeline(transaction=False)
                for number in range(5000):
                    pipeline.xadd("s", {"number": number})
                assert len(pipeline.execute()) == 5000
                assert len(client.xrange("s")) == 5000
                client.delete("s")
                listener.subscribe("c")
                assert listener.get_message(timeout=10)["type"] == "subscribe"
                client.publish("c", "x")
                assert listener.get_message(timeout=10)["data"] == b"x"
        assert server.client().ping()


def test_who_has_no_good_certificate_is_refused_and_the_others_are_served(tmp_path: Path, certificates: Path) -> None:
    with TlsServer(tmp_path, certificates) as server, server.tls() as known:
        for name in (None, "stranger"):
            with server.tls(name) as client, pytest.raises(redis.ConnectionError):
                client.ping()
        assert known.ping()
        known.config_set("tls-auth-clients", "optional")
        with server.tls(None) as client:
            assert client.ping()
        with server.tls("stranger") as client, pytest.raises(redis.ConnectionError):
            client.ping()
        known.config_set("tls-auth-clients", "no")
        with server.tls("stranger") as client:
            assert client.ping()


def test_certificates_are_replaced_and_a_bad_one_is_not(tmp_path: Path, certificates: Path) -> None:
    with TlsServer(tmp_path, certificates, "--tls-auth-clients", "no") as server, server.tls() as before:
        assert before.ping()
        with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
            before.config_set("tls-cert-file", str(certificates / "missing.crt"))
        with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
            before.config_set("tls-key-file", str(certificates / "other-server.key"))
        with server.tls() as client:
            assert client.ping()
        files = {"tls-cert-file": "other-server.crt", "tls-key-file": "other-server.key"}
        words = [word for name, file in files.items() for word in (name, str(certificates / file))]
        assert before.execute_command("CONFIG", "SET", *words)
        with server.tls() as client, pytest.raises(redis.ConnectionError):
            client.ping()
        with server.tls(authority="other-ca") as client:
            assert client.ping()
        assert before.ping()
        before.config_set("bind", "127.0.0.1")
        with server.tls(authority="other-ca") as client:
            assert client.ping()
        with pytest.raises(redis.ResponseError):
            before.config_set("bind", "192.0.2.1")
        with server.tls(authority="other-ca") as client:
            assert client.ping()
        before.config_set("tls-port", 0)
        with server.tls(authority="other-ca") as client, pytest.raises(redis.ConnectionError):
            client.ping()
        assert before.ping()


def test_plain_text_and_half_open_handshakes_are_no_burden(tmp_path: Path, certificates: Path) -> None:
    with TlsServer(tmp_path, certificates) as server, server.tls() as client:
        assert client.ping()
        opened = [socket.create_connection(("127.0.0.1", server.tls_port)) for _ in range(200)]
        for half in opened[:100]:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")
        plain = socket.create_connection(("127.0.0.1", server.tls_port), timeout=20)
        plain.sendall(b"*1\r\n$4\r\nPING\r\n")
        answer = plain.recv(100)
        assert b"PONG" not in answer
        with server.tls() as other:
            assert other.ping()
        assert client.ping()
        assert client.info("clients")["connected_clients"] == 1
        for each in (*opened, plain):
            each.close()
        assert client.ping()
    assert "Traceback" not in server.log


def test_versions_and_locked_keys(tmp_path: Path, certificates: Path) -> None:
    locked = ("--tls-key-file", str(certificates / "locked.key"), "--tls-key-file-pass", "secret")
    with TlsServer(tmp_path, certificates, *locked, "--tls-protocols", "TLSv1.3", "--tls-auth-clients", "no") as server:
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        with (
            socket.create_connection(("127.0.0.1", server.tls_port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            assert secure.version() == "TLSv1.3"
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", server.tls_port)) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "tls-cert-file is not set"),
        (("--tls-cert-file", "{}/nothing.crt", "--tls-key-file", "{}/server.key"), "does not exist"),
        (("--tls-cert-file", "{}/server.crt", "--tls-key-file", "{}/client.key"), "do not belong together"),
        (("--tls-cert-file", "{}/server.crt", "--tls-key-file", "{}/locked.key"), "tls-key-file-pass would tell"),
        (("--tls-cert-file", "{}/server.crt", "--tls-key-file", "{}/server.key"), "tls-auth-clients no"),
    ],
)
def test_what_is_wrong_with_tls_is_one_sentence(
    tmp_path: Path, certificates: Path, flags: tuple[str, ...], why: str
) -> None:
    words = [flag.format(certificates) for flag in flags]
    ended = run_to_its_end("serve", "--port", "0", "--tls-port", str(free_port()), *words, directory=tmp_path)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode != 0
    assert why in said
    assert len(said.strip().splitlines()) == 1
