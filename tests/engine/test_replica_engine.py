"""The engine of a replica: expiry, effects and refusals; and pauses that have different purposes."""

from headrace.engine.applier import Applier
from headrace.engine.blocking.pausing import NO_END_MS, Purpose
from headrace.engine.blocking.waking import run_due
from headrace.engine.standing_refusals import Cause
from support.in_process import InProcess

BEGAN = 1_700_000_000_000


def replica_with_expired_key() -> InProcess:
    server = InProcess()
    server.set_clock(BEGAN)
    server.run("SET", "k", "v", "PX", 10)
    server.run("SET", "other", "v")
    server.engine.begin_following()
    server.take_effects()
    server.set_clock(BEGAN + 100)
    server.engine.tick()
    return server


def test_a_replica_removes_no_key_by_itself_but_its_clients_do_not_see_it() -> None:
    server = replica_with_expired_key()
    assert server.run("GET", "k") == b"$-1\r\n"
    assert server.run("DBSIZE") == b":2\r\n"
    assert server.run("WATCH", "k") == b"+OK\r\n"
    assert server.run("DBSIZE") == b":2\r\n"
    assert server.take_effects() == []


def test_the_commands_of_the_master_find_a_key_whose_time_has_come() -> None:
    server = replica_with_expired_key()
    applier = Applier(server.engine, BEGAN + 100)
    assert applier.run([b"APPEND", b"k", b"w"]) is None
    assert applier.run([b"PERSIST", b"k"]) is None
    assert server.run("GET", "k") == b"$2\r\nvw\r\n"


def test_a_replica_that_is_promoted_expires_what_is_due() -> None:
    server = replica_with_expired_key()
    server.engine.end_following()
    server.set_clock(BEGAN + 300)
    run_due(server.engine)
    assert server.run("DBSIZE") == b":1\r\n"
    assert [argv for _, argv in server.take_effects()] == [[b"DEL", b"k"]]


def test_a_write_to_a_writable_replica_is_no_effect_and_does_not_meet_what_has_expired() -> None:
    server = replica_with_expired_key()
    offset = server.engine.effects.offset
    assert server.run("APPEND", "k", "new") == b":3\r\n"
    assert server.run("EXPIRE", "other", -1) == b":1\r\n"
    assert (server.run("GET", "other"), server.run("DBSIZE")) == (b"$-1\r\n", b":2\r\n")
    assert server.take_effects() == []
    assert server.engine.effects.offset == offset


def test_writes_are_refused_with_the_first_cause_and_accepted_when_none_is_left() -> None:
    server = InProcess()
    refusals = server.engine.refusals
    refusals.refuse_writes(Cause.READ_ONLY, b"READONLY a replica")
    refusals.refuse_writes(Cause.DISK, b"MISCONF a disk")
    assert server.run("SET", "k", "v") == b"-MISCONF a disk\r\n"
    assert server.run("EVAL", "return redis.call('SET', 'k', 'v')", 0).startswith(b"-READONLY a replica")
    refusals.refuse_writes(Cause.DISK, None)
    assert server.run("SET", "k", "v") == b"-READONLY a replica\r\n"
    assert server.run("GET", "k") == b"$-1\r\n"
    refusals.refuse_writes(Cause.READ_ONLY, None)
    assert server.run("SET", "k", "v") == b"+OK\r\n"


def test_a_pause_ends_only_for_its_own_purpose() -> None:
    server = InProcess()
    server.set_clock(BEGAN)
    server.run("CLIENT", "PAUSE", 1000, "ALL")
    server.engine.pauses.begin(NO_END_MS, writes_only=True, purpose=Purpose.FAILOVER)
    reader, writer = server.connect(), server.connect()
    assert reader.run("GET", "k") == writer.run("SET", "k", "v") == b""
    server.set_clock(BEGAN + 1001)
    run_due(server.engine)
    assert (reader.reply(), writer.reply()) == (b"$-1\r\n", b"")
    server.run("CLIENT", "UNPAUSE")
    run_due(server.engine)
    assert writer.reply() == b""
    server.engine.pauses.end(Purpose.FAILOVER)
    run_due(server.engine)
    assert writer.reply() == b"+OK\r\n"


def test_unpause_lets_run_what_only_its_own_pause_held_back() -> None:
    server = InProcess()
    server.set_clock(BEGAN)
    server.engine.pauses.begin(NO_END_MS, writes_only=True, purpose=Purpose.FAILOVER)
    steering, reader, writer = server.connect(), server.connect(), server.connect()
    assert writer.run("SET", "k", "v") == b""
    server.engine.pauses.begin(BEGAN + 1000, writes_only=False)
    assert reader.run("GET", "k") == b""
    steering.client.is_follower = True  # which is never held back
    assert steering.run("CLIENT", "UNPAUSE") == b"+OK\r\n"
    run_due(server.engine)
    assert (reader.reply(), writer.reply()) == (b"$-1\r\n", b"")
    assert server.run("GET", "k") == b"$-1\r\n"
