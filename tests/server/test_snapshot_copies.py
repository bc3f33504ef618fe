"""A snapshot's child looks at values without writing to them: what it copies is its own, however much there is."""

import time
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

KEYS = 60_000
FILL = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    local key, words = 'key:' .. number, {}
    for i = 1, 5 do
        if ARGV[3] == 'ZADD' then words[#words + 1] = i end
        words[#words + 1] = 'element-' .. number .. '-' .. i
        if ARGV[3] == 'HSET' then words[#words + 1] = 'value-' .. i end
    end
    redis.call(ARGV[3], key, unpack(words))
end
"""


@pytest.mark.parametrize("command", ["HSET", "RPUSH", "SADD", "ZADD"])
def test_a_snapshot_of_many_small_values_copies_little_of_them(tmp_path: Path, command: str) -> None:
    with ServerProcess(tmp_path, "--save", "", "--appendonly", "no") as server:
        client = server.client()
        before = server.resident_bytes()
        for first in range(1, KEYS, 1000):
            client.eval(FILL, 0, first, first + 999, command)
        held = server.resident_bytes() - before
        client.bgsave()
        deadline = time.monotonic() + PATIENCE_S
        while client.info("persistence")["rdb_bgsave_in_progress"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        saved = client.info("persistence")
        assert saved["rdb_last_bgsave_status"] == "ok"
        own = 8 * 1024 * 1024  # of the interpreter, with no data at all
        assert saved["rdb_last_cow_size"] < own + held / 8, f"{held:,} bytes are held"
