"""Memory that the system refuses a running server: a request fails, or its connection ends, and nothing is lost."""

import resource
from contextlib import suppress
from pathlib import Path

import pytest

from support.raw_client import encode
from support.server_process import ServerProcess

MEGABYTE = 1 << 20
LARGE = bytes(60_000_000)
REQUESTS = {
    "SET": [b"SET", b"k", LARGE],
    "SETRANGE": [b"SETRANGE", b"k", b"60000000", b"x"],
    "XADD": [b"XADD", b"s", b"*", b"f", LARGE],
    "XRANGE": [b"XRANGE", b"s", b"-", b"+"],
    "MSET": [b"MSET", *[b"key %d" % number for number in range(400_000)]],
    "EVAL": [b"EVAL", b"return #string.rep('x', 80000000)", b"0"],
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_memory_refused_costs_a_request_or_its_connection(tmp_path: Path, request_: list[bytes]) -> None:
    arguments = ("--save", "", "--appendonly", "yes")
    with ServerProcess(tmp_path, *arguments) as server:
        with server.raw() as client:
            for _ in range(20):
                assert client.run("XADD", "s", "*", "f", bytes(MEGABYTE)).startswith(b"$")
        pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[0]
        most = int(pages) * resource.getpagesize() + 8 * MEGABYTE
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        with server.raw() as client, suppress(ConnectionError):
            client.send_raw(encode(request_))
            assert client.reply().startswith(b"-")
        with server.raw() as client:
            assert client.run("PING") == b"+PONG\r\n"
            assert client.run("SET", "small", "kept") == b"+OK\r\n"
            assert client.run("XLEN", "s") == b":20\r\n"
        assert "Traceback" not in server.log
        server.process.kill()
        server.process.wait()
    with ServerProcess(tmp_path, *arguments) as server, server.raw() as client:
        assert client.run("XLEN", "s") == b":20\r\n"
        assert client.run("GET", "small") == b"$4\r\nkept\r\n"
        assert client.run("EXISTS", "k", "key 0") == b":0\r\n"
