"""Time does not touch what is still being loaded."""

from commands.in_process import InProcess
from headrace.engine.replay import Replayer

NOON = 1_700_000_000_000


def test_a_key_whose_time_has_come_is_there_for_what_follows_in_the_files() -> None:
    """A base has it with a time; an increment behind takes that away. A tick in between once took the key."""
    engine = InProcess()
    engine.set_clock(NOON)
    engine.engine.effect_sink = None
    replayer = Replayer(engine.engine)
    engine.engine.load_key(0, b"kept", b"v", NOON - 1000, None)
    engine.engine.load_key(0, b"expired", b"v", NOON - 1000, None)
    engine.engine.tick()
    assert replayer.run([b"PERSIST", b"kept"]) is None
    engine.engine.tick()
    replayer.end()
    engine.engine.tick()
    assert engine.run("GET", "kept") == b"$1\r\nv\r\n"
    assert engine.run("EXISTS", "expired") == b":0\r\n"
