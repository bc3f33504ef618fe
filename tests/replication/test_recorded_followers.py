"""Replicas of real servers, as they were recorded, meet a Headrace: what they said is said to it again."""

import gzip
import json
from pathlib import Path

import pytest

from support.raw_client import RawClient
from support.replication.server_pair import master

GOLDEN = Path(__file__).parents[1] / "golden" / "replication"
MARK = 40  # bytes


def said_by_replica(recording: str) -> list[bytes]:
    """What the replica of a recording sends on its first connection, up to PSYNC."""
    said = []
    with gzip.open(GOLDEN / f"{recording}.jsonl.gz", "rt") as lines:
        for record in map(json.loads, lines):
            if record["c"] == 1 and record.get("dir") == "replica" and "bytes" in record:
                said.append(record["bytes"].encode("latin-1"))
                if b"PSYNC" in said[-1]:
                    return said
    raise AssertionError(f"{recording} has no PSYNC")


def line_of(client: RawClient) -> bytes:
    """The next line that is not empty."""
    line = b""
    while not line.strip():
        line = b""
        while not line.endswith(b"\n"):
            line += client.exactly(1)
    return line


def snapshot_of(client: RawClient) -> bytes:
    """The snapshot that comes next, in either form."""
    head = line_of(client).strip()
    if not head.startswith(b"$EOF:"):
        return client.exactly(int(head[1:]))
    mark = head[5:]
    assert len(mark) == MARK
    data = b""
    while not data.endswith(mark):
        data += client.exactly(1)
    return data[:-MARK]


class Stream:
    """The commands that a master sends, and how many bytes they were."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.size = 0

    def next_command(self) -> list[bytes]:
        """The next one that is no PING."""
        argv = [b"PING"]
        while argv == [b"PING"]:
            argv = [self._argument() for _ in range(self._number())]
        return argv

    def _number(self) -> int:
        line = line_of(self._client)
        self.size += len(line)
        return int(line[1:])

    def _argument(self) -> bytes:
        size = self._number()
        self.size += size + 2
        return self._client.exactly(size + 2)[:-2]


@pytest.mark.parametrize(
    ("recording", "version"),
    [("wire-m70r70", b"REDIS0010"), ("wire-m70r89", b"REDIS0011"), ("wire-m89r89_nochannel", b"REDIS0011")],
)
def test_a_recorded_replica_follows_and_continues(tmp_path: Path, recording: str, version: bytes) -> None:
    said = said_by_replica(recording)
    with master(tmp_path / "m") as server, server.client() as leader:
        leader.xadd("s", {"a": "1"}, "1-1")
        with RawClient(server.port) as replica:
            for words in said[:-1]:
                replica.send_raw(words)
                assert line_of(replica) in (b"+PONG\r\n", b"+OK\r\n")
            replica.send_raw(said[-1])
            answer, history, offset = line_of(replica).split()
            assert answer == b"+FULLRESYNC"
            assert len(history) == MARK
            assert snapshot_of(replica).startswith(version)
            replica.send_words("REPLCONF", "ACK", offset)
            leader.xadd("s", {"a": "2"}, "2-1")
            stream = Stream(replica)
            assert stream.next_command() == [b"SELECT", b"0"]
            assert stream.next_command() == [b"XADD", b"s", b"2-1", b"a", b"2"]
        with RawClient(server.port) as replica:
            for words in said[:-1]:
                replica.send_raw(words)
                line_of(replica)
            leader.xadd("s", {"a": "3"}, "3-1")
            replica.send_words("PSYNC", history, int(offset) + stream.size + 1)
            assert line_of(replica) == b"+CONTINUE " + history + b"\r\n"
            assert Stream(replica).next_command() == [b"XADD", b"s", b"3-1", b"a", b"3"]
