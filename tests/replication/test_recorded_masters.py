"""What real masters of 7.0.15 and 8.9 have sent, sent again: the replica says what theirs said, and has their data."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.commands.all import make_engine
from headrace.engine.configuration.config import Config
from headrace.formats.aof import AofReader, encode
from headrace.replication.applying import MasterApplier
from support.patience import await_that
from support.replication.fake_master import FakeMaster, ReplicaConnection
from support.replication.replica_host import ReplicaHost
from support.storage.operator_log import OperatorLog

GOLDEN = Path(__file__).parents[1] / "golden" / "replication"
WIRES = ("m70r70", "m70r89", "m89r89", "m89r89_nochannel")


def records(name: str) -> Iterator[Any]:
    with gzip.open(GOLDEN / name) as file:
        yield from map(json.loads, file)


class Recorded(NamedTuple):
    """One connection: what PSYNC asked, what the master sent from its answer on, and what the replica acknowledged."""

    asked: list[bytes]
    sent: bytes
    acknowledged: int


def connections(wire: str) -> list[Recorded]:
    """The connections of a recording, in their order; a snapshot that had its own is put where we get it."""
    sent: dict[int, dict[str, bytes]] = {}
    for chunk in records(f"wire-{wire}.jsonl.gz"):
        said = sent.setdefault(chunk["c"], {"master": b"", "replica": b""})
        said[chunk["dir"]] += chunk.get("bytes", "").encode("latin-1")
    main, *others = sent.values()
    if b"+RDBCHANNELSYNC" in main["master"]:
        snapshot, *others = others
        stream = main["master"].partition(b"+RDBCHANNELSYNC")[2].partition(b"\r\n")[2]
        main["master"] = snapshot["master"] + stream
    return [_recorded(said) for said in (main, *others)]


def _recorded(said: dict[str, bytes]) -> Recorded:
    answer = min(at for word in (b"+FULLRESYNC", b"+CONTINUE") if (at := said["master"].find(word)) >= 0)
    reader = AofReader(said["replica"])
    commands = []
    while (argv := reader.next()) is not None:
        commands.append(argv)
    (asked,) = (argv[1:] for argv in commands if argv[0] == b"PSYNC")
    acknowledged = max(int(argv[2]) for argv in commands if argv[:2] == [b"REPLCONF", b"ACK"])
    return Recorded(asked, said["master"][answer:], acknowledged)


@pytest.mark.parametrize("wire", WIRES)
def test_a_recorded_master_is_followed_as_its_replica_did(tmp_path: Path, wire: str) -> None:
    recorded = connections(wire)
    asked: list[list[bytes]] = []

    def script(replica: ReplicaConnection) -> None:
        asked.append(replica.shake_hands())
        connection = recorded[len(asked) - 1]
        assert asked[-1] == connection.asked
        replica.send(connection.sent)
        if len(asked) == len(recorded):
            replica.stay()
        replica.await_acknowledged(connection.acknowledged)

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port) as replica:
        await_that(lambda: len(asked) == len(recorded) and replica.run("XLEN", "s") == b":7\r\n")
        assert replica.fields()["master_skipped_commands"] == 0, replica.log.warnings
        assert replica.run("XRANGE", "s", "7-0", "+") == (
            b"*1\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$4\r\nback\r\n$5\r\nagain\r\n"
        )
        assert replica.run("XPENDING", "s", "g").startswith(b"*4\r\n:1\r\n$3\r\n2-0\r\n$3\r\n2-0\r\n")
        assert replica.run("EXISTS", "before") == b":0\r\n"
        told = GOLDEN / f"{wire}-info_replica.txt"
        if told.exists():
            assert f"slave_repl_offset:{replica.offset}\n" in told.read_text().replace("\r", "")


def test_every_command_that_a_master_of_8_9_has_sent_can_be_repeated() -> None:
    count = 0
    for scenario in records("redis-8.9-propagation.jsonl.gz"):
        log = OperatorLog()
        applier = MasterApplier(make_engine(Config()), log)
        applier.begin()
        for step in scenario["sent"]:
            applier.apply(b"".join(encode([word.encode("latin-1") for word in argv]) for argv in step))
            count += len(step)
        assert log.warnings == [], f"seed {scenario['seed']}"
    assert count > 10_000
