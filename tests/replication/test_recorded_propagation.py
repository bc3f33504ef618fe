"""What Redis 8.9 sent to its replicas for 20,598 recorded steps, and what Headrace sends for the same.

Where both differ, docs/replication.md says why, in the table whose rows are the kinds here.
"""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.commands.all import make_engine
from headrace.engine.applier import Applier
from headrace.engine.configuration.config import Config
from headrace.engine.effect_log import CallbackSubscriber
from headrace.formats.aof import AofReader
from support.in_process import InProcess, InProcessClient
from support.replay.whole_state import differences, take_state

GOLDEN = Path(__file__).parents[1] / "golden"
BESIDE = ("SELECT", "MULTI", "EXEC")
OF_CONSUMERS = ("XGROUP CREATECONSUMER", "HEADRACE SEEN")


def records(name: str) -> list[Any]:
    with gzip.open(GOLDEN / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def names_of(commands: list[list[str]]) -> list[str]:
    """The names of commands, several of the same as one."""
    names: list[str] = []
    for argv in commands:
        name = argv[0].upper()
        if name in ("XGROUP", "HEADRACE"):
            name = f"{name} {argv[1].upper()}"
        if name not in BESIDE and names[-1:] != [name]:
            names.append(name)
    return names


def kind_of_difference(step: str, recorded: list[str], sent: list[str]) -> str:
    """Why both differ; `same` where they do not."""
    if recorded == sent:
        return "same"
    theirs, ours = ([name for name in names if name not in OF_CONSUMERS] for names in (recorded, sent))
    if theirs == ours:
        return "consumers"
    if step == "XADD" and ours == ["HEADRACE IDMPREPEAT"]:
        return "duplicates"
    if step == "XREADGROUP" and not theirs and ours == ["XCLAIM"]:
        return "read again"
    if step in ("XCLAIM", "XAUTOCLAIM") and theirs == ["XCLAIM"] and ours == ["XACK"]:
        return "gone"
    return f"{step}: {recorded} and {sent}"


def test_a_replica_gets_what_redis_8_9_sends_but_for_what_the_page_explains() -> None:
    kinds: Counter[str] = Counter()
    transcripts = records("redis-8.9-transcripts.jsonl.gz")
    propagated = records("replication/redis-8.9-propagation.jsonl.gz")
    for scenario, recorded in zip(transcripts, propagated, strict=True):
        master = InProcess()
        units: list[bytes] = []
        master.engine.effects.subscribe(CallbackSubscriber(units.append))
        for step, theirs in zip(scenario["steps"], recorded["sent"], strict=True):
            run(master, step["cmd"])
            ours = [[word.decode("latin-1") for word in argv] for _, argv in master.take_effects()]
            kinds[kind_of_difference(step["cmd"][0].upper(), names_of(theirs), names_of(ours))] += 1
        assert_leads_to_the_same_data(master, b"".join(units), scenario["seed"])
    assert set(kinds) == {"same", "consumers", "duplicates", "read again", "gone"}
    assert sum(kinds.values()) == sum(len(scenario["steps"]) for scenario in transcripts)
    assert kinds["same"] > 0.95 * sum(kinds.values())


def run(master: InProcess, words: list[str]) -> None:
    client = InProcessClient(master.engine)
    client.run(*(word.encode("latin-1") for word in words))
    master.engine.disconnect(client.client)


def assert_leads_to_the_same_data(master: InProcess, effects: bytes, seed: str) -> None:
    follower = make_engine(Config())
    applier = Applier(follower, master.engine.clocks.unix_ms())
    reader = AofReader(effects)
    while reader.ending is None:
        applier.run_many(reader, 1000)
        assert applier.error is None, (seed, applier.refused, applier.error)
    found, expected = take_state(follower), take_state(master.engine)
    assert found == expected, f"{seed}: {differences(found, expected)}"


def test_the_page_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "replication.md").read_text()
    for kind in ("consumers", "duplicates", "read again", "gone"):
        assert f"| {kind} |" in page
