"""FAILOVER, seen from the former master: what it makes of the answers of the replica that shall take over."""

from pathlib import Path

import pytest

from support.patience import await_that
from support.replication.fake_master import HISTORY, FakeMaster, ReplicaConnection, Script
from support.replication.replica_host import ReplicaHost

CANNOT = b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n"


def hand_over(directory: Path, *answers: Script) -> tuple[list[bool], list[list[bytes]]]:
    """Let a server that was a master ask for a takeover; return whether it was agreed, and each PSYNC."""
    asked: list[list[bytes]] = []
    agreed: list[bool] = []

    def give_data(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot(offset=100)
        replica.await_acknowledged(100)
        host.call(lambda: setattr(host.link, "takes_over", True))

    def noted(script: Script) -> Script:
        def run(replica: ReplicaConnection) -> None:
            asked.append(replica.shake_hands())
            script(replica)

        return run

    with (
        FakeMaster(give_data, *map(noted, answers)) as master,
        ReplicaHost(directory, master.port) as host,
    ):
        host.link.on_takeover = agreed.append
        await_that(lambda: len(asked) >= len(answers))
        await_that(lambda: agreed)
    return agreed, asked


def say(answer: bytes) -> Script:
    def run(replica: ReplicaConnection) -> None:
        replica.send(answer)
        replica.stay()

    return run


def hang_up(_: ReplicaConnection) -> None:
    """Say nothing."""


@pytest.mark.parametrize(
    ("answers", "is_agreed"),
    [
        ([say(b"+CONTINUE " + b"c" * 40 + b"\r\n")], True),
        ([say(b"-ERR PSYNC FAILOVER replid must match my replid.\r\n")], False),
        ([hang_up, say(b"+CONTINUE " + b"c" * 40 + b"\r\n")], True),
    ],
    ids=["agrees", "refuses", "agrees when it is asked again"],
)
def test_the_answer_decides(answers: list[Script], is_agreed: bool, tmp_path: Path) -> None:
    agreed, asked = hand_over(tmp_path, *answers)
    assert agreed == [is_agreed]
    assert all(psync == [HISTORY, b"101", b"FAILOVER"] for psync in asked)


def test_an_answer_that_was_lost_does_not_make_two_masters(tmp_path: Path) -> None:
    agreed, asked = hand_over(tmp_path, hang_up, say(CANNOT), say(b"+CONTINUE " + b"c" * 40 + b"\r\n"))
    assert agreed == [True]
    assert [psync[2:] for psync in asked[:3]] == [[b"FAILOVER"], [b"FAILOVER"], []]
