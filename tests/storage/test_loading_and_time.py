"""Loading into an engine: what time does not touch meanwhile, and where a run of commands ends."""

from headrace.engine.applier import Applier
from headrace.formats.aof import AofReader, encode
from support.in_process import InProcess
from support.storage.crash_life import ROOT, Clock, Process
from support.storage.simulated_disk import SimulatedDisk

NOON = 1_700_000_000_000


def test_a_key_whose_time_has_come_is_there_for_what_follows_in_the_files() -> None:
    """The base has the key with an expiry, and an increment removes that. Once, a tick in between removed the key."""
    engine = InProcess()
    engine.set_clock(NOON)
    engine.engine.begin_loading()
    applier = Applier(engine.engine, engine.engine.clocks.unix_ms())
    engine.engine.keyspace.load(0, b"kept", b"v", NOON - 1000, None)
    engine.engine.keyspace.load(0, b"expired", b"v", NOON - 1000, None)
    engine.engine.tick()
    assert applier.run([b"PERSIST", b"kept"]) is None
    engine.engine.tick()
    applier.end()
    engine.engine.end_loading()
    engine.engine.tick()
    assert engine.run("GET", "kept") == b"$1\r\nv\r\n"
    assert engine.run("EXISTS", "expired") == b":0\r\n"


def test_nobody_is_served_before_the_journal_has_its_file() -> None:
    """A client that came between the last file and the journal's was answered, and what it did was written nowhere."""
    disk = SimulatedDisk(ROOT)
    for _start in ("anew", "from files"):
        process = Process(disk, Clock(), {"appendonly": "yes"})
        process.store.directory.lock()
        steps = [process.engine.loading for _ in process.store.open()]
        assert steps
        assert all(steps)
        assert not process.engine.loading
        process.store.close()


def test_commands_run_up_to_a_number_an_error_or_the_end() -> None:
    engine = InProcess()
    commands = [[b"SET", b"k", b"%d" % number] for number in range(10)]
    commands[6] = [b"LPUSH", b"k", b"v"]
    reader = AofReader(b"".join(map(encode, commands)))
    applier = Applier(engine.engine, engine.engine.clocks.unix_ms())
    assert (applier.run_many(reader, 4), applier.error) == (4, None)
    assert applier.run_many(reader, 100) == 3
    assert applier.refused == commands[6]
    assert applier.error == b"WRONGTYPE Operation against a key holding the wrong kind of value"
    assert reader.start == len(b"".join(map(encode, commands[:6])))
    for count in (3, 0):
        assert applier.run_many(reader, 100) == count
        assert applier.error is None
    applier.end()
    assert engine.run("GET", "k") == b"$1\r\n9\r\n"
