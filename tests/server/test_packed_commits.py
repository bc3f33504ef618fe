"""Packed batches on a server with a disk: what was committed survives its end, and what was only staged does not."""

from pathlib import Path

import pytest
import redis

from support.packed_rows import numbered
from support.server_process import ServerProcess


def test_a_committed_batch_survives_a_kill_and_a_staged_one_must_be_staged_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        client.execute_command("HEADRACE", "STAGE", "s", "q", 0, 0, numbered(250))
        client.execute_command("HEADRACE", "STAGE", "s", "q", 0, 1, numbered(50))
        answer = client.execute_command("HEADRACE", "COMMIT", "s", "q", 0, 2, "MAXLEN", 260)
        client.execute_command("HEADRACE", "STAGE", "s", "q", 1, 0, numbered(7))
        kept = client.xrange("s")
        server.process.kill()
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert client.xrange("s") == kept
        assert (answer[2], len(kept)) == (300, 260)
        assert client.execute_command("HEADRACE", "COMMIT", "s", "q", 0, 2) == answer
        with pytest.raises(redis.ResponseError, match="part 0 of batch 1 is not staged"):
            client.execute_command("HEADRACE", "COMMIT", "s", "q", 1, 1)
        client.execute_command("HEADRACE", "STAGE", "s", "q", 1, 0, numbered(7))
        assert client.execute_command("HEADRACE", "COMMIT", "s", "q", 1, 1)[2] == 7
        client.bgrewriteaof()
        server.process.terminate()
        server.process.wait(20)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert client.xlen("s") == 267
        assert client.hget("headrace:{s}:batches", "q").startswith("1 ")
