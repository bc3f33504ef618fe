"""A stream of 20 GB in 256 MB of memory: every message is there, whatever kills the server on the way.

HEADRACE_LONG=1      this is a campaign, of some 20 minutes
HEADRACE_GIGABYTES   another size
"""

import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.measuring.errors import LoadFailed
from headrace.measuring.load import Load
from headrace.measuring.targets import packed
from support.campaign import LONG
from support.patience import PATIENCE_S
from support.raw_client import RawClient, parse
from support.server_process import ServerProcess

MESSAGES = int(float(os.environ.get("HEADRACE_GIGABYTES", "20")) * 1_000_000)  # of 1 KB
LIMIT = 256 << 20
FLAGS = ("--maxmemory", str(LIMIT), "--maxmemory-policy", "offload", "--appendfsync", "everysec")
KILLS = 5
AT_ONCE = 100
FILLING = random.Random(1).randbytes(2000)


def message(number: int) -> list[bytes]:
    """Write a message that can be told from all others."""
    start = number % 1000
    return [b"n", b"%d" % number, b"v", FILLING[start : start + 980]]


def entry(number: int) -> bytes:
    """Write how XRANGE tells it."""
    id = b"%d-1" % (number + 1)
    return b"*2\r\n$%d\r\n%s\r\n" % (len(id), id) + packed(*message(number))


class Watch:
    """Looks at the memory of a server ten times a second, as long as it runs."""

    def __init__(self) -> None:
        self.most = 0

    @contextmanager
    def watching(self, server: ServerProcess) -> Iterator[None]:
        status = Path(f"/proc/{server.process.pid}/status")
        over = threading.Event()

        def look() -> None:
            with suppress(OSError):  # it was killed
                while not over.wait(0.1):
                    found = re.search(r"^RssAnon:\s+(\d+)", status.read_text(), re.MULTILINE)
                    self.most = max(self.most, int(found[1]) << 10 if found else 0)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def length_of(server: ServerProcess) -> int:
    with server.raw() as client:
        return client.number("XLEN", "s")


def append(server: ServerProcess, begin: int, end: int) -> None:
    """Append messages, 100 at a time; the server may be killed meanwhile."""
    with server.raw() as client:
        while begin < end and begin % AT_ONCE:
            client.run("XADD", "s", f"{begin + 1}-1", *message(begin))
            begin += 1
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        for start in range(begin, end, 100 * AT_ONCE):
            buffers = [
                b"".join(
                    packed(b"XADD", b"s", b"%d-1" % (number + 1), *message(number))
                    for number in range(first, first + AT_ONCE)
                )
                for first in range(start, min(start + 100 * AT_ONCE, end), AT_ONCE)
            ]
            load = Load([line.fileno()])
            load.run(buffers, AT_ONCE, PATIENCE_S, len(buffers))
            assert load.errors == 0, load.first_error


def append_until_killed(server: ServerProcess, begin: int) -> None:
    """Append messages, and kill the server in the middle."""
    killer = threading.Timer(random.uniform(0.1, 3), server.process.kill)
    killer.start()
    with suppress(LoadFailed, OSError):
        append(server, begin, begin + 100_000_000)
    killer.join()
    server.process.wait(PATIENCE_S)


def check(server: ServerProcess, begin: int, end: int) -> None:
    """Read messages and compare every byte."""
    with RawClient(server.port) as client:
        for start in range(begin, end, 1000):
            numbers = range(start, min(start + 1000, end))
            wanted = b"*%d\r\n" % len(numbers) + b"".join(map(entry, numbers))
            client.send_words("XRANGE", "s", f"{start + 1}", "+", "COUNT", len(numbers))
            assert client.exactly(len(wanted)) == wanted, f"messages from {start} on"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG, reason="a campaign: HEADRACE_LONG=1")
def test_a_stream_of_20_gb_in_256_mb(tmp_path: Path) -> None:
    watch = Watch()
    piece = MESSAGES // (KILLS + 1) // AT_ONCE * AT_ONCE
    kept = 0
    for life in range(KILLS + 1):
        with ServerProcess(tmp_path, *FLAGS) as server, watch.watching(server):
            found = length_of(server)
            assert found >= kept, "messages that were on disk are lost"
            check(server, max(found - 5_000, 0), found)
            append(server, found, (life + 1) * piece)
            with server.raw() as client:
                assert parse(client.run("WAITAOF", 1, 0, 60_000))[1] == ":1"
            kept = length_of(server)
            if life < KILLS:
                append_until_killed(server, kept)
    began = time.monotonic()
    with ServerProcess(tmp_path, *FLAGS) as server, watch.watching(server):
        print(f"the last start took {time.monotonic() - began:.1f} s")
        assert length_of(server) >= (KILLS + 1) * piece
        check(server, 0, length_of(server))
        server.stop(signal.SIGTERM)
    print(f"at most {watch.most >> 20} MB")
    assert watch.most < LIMIT * 1.25
