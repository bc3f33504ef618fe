"""A client that sends requests and closes its half of the connection, as `nc` does, has all of them run."""

import socket
from pathlib import Path

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

TEXT = b"x" * 10_000
REQUESTS = 2000


def test_requests_before_the_end_run_and_are_answered_however_long_the_replies_are(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--save", "") as server:
        client = server.client()
        client.set("text", TEXT)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
            line.sendall(b"GET text\r\nINCR counter\r\n" * REQUESTS)
            line.shutdown(socket.SHUT_WR)
            received = 0
            while piece := line.recv(1 << 20):
                received += len(piece)
        assert client.get("counter") == str(REQUESTS)
        numbers = sum(len(b":%d\r\n" % number) for number in range(1, REQUESTS + 1))
        assert received == REQUESTS * (len(TEXT) + len(b"$10000\r\n\r\n")) + numbers


def test_an_unfinished_request_at_the_end_is_dropped(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--save", "") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
            line.sendall(b"INCR counter\r\n*2\r\n$4\r\nINCR\r\n$7\r\ncoun")
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100) == b":1\r\n"
            assert line.recv(100) == b""
        assert server.client().get("counter") == "1"
