"""A server lets its collections pass over what has lived for a while: nothing of that may become garbage in a cycle."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.server import garbage as garbage_of_a_server
from support.ruled_engine import RuledEngine


@pytest.fixture
def collected() -> Iterator[None]:
    """No garbage of before, and no collections that a test does not ask for."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def garbage() -> Counter[str]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def live_for_a_day(engine: RuledEngine) -> None:
    """Let clients come and go, be refused and wait; let rules be set, kept, changed and removed."""
    for number in range(3):
        engine.policy("SET", "q", "MAXLEN", 3 + number, "ACKED", "DROP", "ACKED")
        engine.policy(
            *("SET", "q", "GROUP", "g", "VISIBILITY", "1s", "RETRY", "1s", "9s"),
            *("MAXDELIVERIES", 2, "CONSUMERTTL", "1h", "CREATE", "FROM", 0),
        )
        engine.policy("SET", "MATCH", "*", "GROUP", "h", "VISIBILITY", f"{number + 1}s")
        client = engine.connect()
        for command in ("XADD q * a 1", "XADD q", "NOSUCH", "XREADGROUP GROUP g c STREAMS q >", "MULTI", "EXEC"):
            client.run(*command.split())
        waiting = engine.waiting("XREAD", "BLOCK", 0, "STREAMS", "q", "$")
        engine.ask("HEADRACE", "SCHEDULE", "q", "DELAY", "5s", "b", "2")
        for _ in range(5):
            engine.wait(3_600_000)
            client.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "q", ">")
        engine.engine.begin_following()
        engine.engine.end_following()
        engine.settle()
        for gone in (client, waiting):
            engine.engine.disconnect(gone.client)
        engine.policy("DEL", "q")
        engine.policy("DEL", "q", "GROUP", "g")
        engine.policy("DEL", "MATCH", "*", "GROUP", "h")
        engine.settle()
        engine.ask("DEL", "q", "q:dead")


@pytest.mark.usefixtures("collected")
def test_clients_and_rules_that_go_leave_no_garbage_in_cycles() -> None:
    engine = RuledEngine()
    live_for_a_day(engine)
    garbage()  # what only the first of its kind makes
    live_for_a_day(engine)
    assert garbage() == Counter()


def test_a_server_that_starts_collects_nothing_until_it_serves() -> None:
    try:
        garbage_of_a_server.postpone()
        assert not gc.isenabled()
        garbage_of_a_server.begin()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
