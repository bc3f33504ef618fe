"""What Redis 8.9 answered to 20,598 commands, Headrace answers too: over the wire, in RESP2 and RESP3."""

import gzip
import json
from pathlib import Path

import pytest
import redis

from support.raw_client import RawClient, matches, parse

RECORDING = Path(__file__).parent.parent / "golden" / "redis-8.9-transcripts.jsonl.gz"
SCENARIOS = [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_recorded_reply_of_redis_8_9_is_ours_too(headrace_server: redis.Redis, protocol: int) -> None:
    compared = 0
    client = RawClient(headrace_server.connection_pool.connection_kwargs["port"])
    client.run("HELLO", protocol)
    # The recording forgets no producer, and some of its producers send entries of the year 1970.
    client.run("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for scenario in SCENARIOS:
        if scenario["proto"] != protocol:
            continue
        client.run("FLUSHALL")
        for number, step in enumerate(scenario["steps"]):
            reply = parse(client.run(*(word.encode("latin-1") for word in step["cmd"])))
            where = f"scenario {scenario['seed']}, step {number}: {step['cmd']}"
            assert matches(step["reply"], reply), f"{where}\nrecorded {step['reply']}\nreplied  {reply}"
            compared += 1
    client.run("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    client.close()
    assert compared == sum(len(s["steps"]) for s in SCENARIOS if s["proto"] == protocol) > 10_000
