"""`stream.policy` and `group.policy`: rules in process, which act without anybody's help there, too."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import headrace
from headrace.api.database import Database
from headrace.api.errors import Refused
from support.patience import await_that


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with headrace.open(tmp_path) as database:
        yield database


def test_a_rule_of_a_stream_is_set_shown_and_taken_back(database: Database) -> None:
    stream = database.stream("q")
    assert stream.policy() is None
    assert stream.remove_policy() is False
    rule = stream.policy(maxlen=2, maxage=timedelta(days=7), maxbytes="512mb", refs="acked", drop_acked=True)
    assert rule is not None
    assert (rule["maxlen"], rule["maxage"], rule["maxbytes"]) == (2, 604_800_000, 536_870_912)
    assert (rule["refs"], rule["drop"]) == ("acked", "acked")
    for number in range(5):
        stream.add(n=number)
    assert len(stream) == 2
    shown = stream.policy()
    assert shown is not None
    assert shown["trimmed"] == 3
    assert stream.remove_policy() is True
    assert stream.policy() is None


def test_a_message_that_nobody_can_handle_becomes_a_dead_letter(database: Database) -> None:
    stream = database.stream("q")
    group = stream.group("workers")
    rule = group.policy(visibility=0.02, retry=("1ms", "20ms"), max_deliveries=3, consumer_ttl="1h", create_from="0")
    assert rule is not None
    assert (rule["visibility"], rule["retry_max"], rule["create"]) == (20, 20, "0")
    stream.add(n=1)
    seen = 0
    for name in "abc":
        for message in group.consumer(name, timeout=20):
            assert message["n"] == "1"
            seen += 1
            break  # without an acknowledgement
    assert seen == 3
    dead = database.stream("q:dead")
    await_that(lambda: len(dead) == 1)
    (letter,) = dead
    assert (letter["n"], letter["headrace-consumer"], letter["headrace-deliveries"]) == ("1", "c", "3")
    assert group.pending() == []
    assert group.remove_policy() is True
    assert group.policy() is None


def test_what_cannot_be_kept_is_refused(database: Database) -> None:
    with pytest.raises(Refused, match="is no duration"):
        database.stream("q").policy(maxage="7x")
    with pytest.raises(ValueError, match="refs is one of"):
        database.stream("q").policy(maxlen=5, refs="some")
    with pytest.raises(Refused, match="its own dead-letter stream"):
        database.stream("q").group("g").policy(dead_letter="q")
