"""Regressions: data that was acknowledged, and was missing or different after a restart.

Each killed process had done something that depends on the clock, on a setting, on how entries lie in nodes or on what
was remembered. It had written a command that decided the same question again when it was repeated.
"""

from typing import TypeVar

import pytest

from headrace.commands.all import TABLE
from headrace.engine.applier import Applier
from headrace.engine.command import Flag
from headrace.engine.effects import BESIDE_WRITES
from headrace.storage.check import check
from headrace.storage.errors import CannotRecover
from headrace.storage.reading import read_data
from support.in_process import InProcessClient
from support.replay.replay_history import BEGINNING_MS, ROOT, Machine
from support.replay.whole_state import State, differences, take_state
from support.steps import finish
from support.storage.memory_disk import MemoryDisk
from support.storage.operator_log import OperatorLog

T = TypeVar("T")


class Session:
    """A process that is killed and started again, by a clock that is set."""

    def __init__(self, **settings: str) -> None:
        self.now_ms = BEGINNING_MS
        self.settings = {name.replace("_", "-"): value for name, value in settings.items()}
        self.disk = MemoryDisk({})
        self.start()

    def start(self, **settings: str) -> None:
        """Start another process, with more settings."""
        self.settings |= {name.replace("_", "-"): value for name, value in settings.items()}
        self.machine = Machine(self.disk, lambda: self.now_ms, self.settings)

    @property
    def client(self) -> InProcessClient:
        return self.machine.clients[0]

    def ask(self, *lines: str) -> bytes:
        """Run lines, have their effects on disk, and return the last reply."""
        reply = b""
        for line in lines:
            reply = self.client.run(*line.split(" "))
        self.machine.journal.commit()
        return reply

    def wait(self, seconds: float) -> None:
        """Let time pass, and the chores be done."""
        self.now_ms += int(seconds * 1000)
        self.machine.engine.tick()
        self.machine.journal.commit()

    def state(self) -> State:
        return take_state(self.machine.engine)

    def check_restart(self, **settings: str) -> None:
        """Kill the process, and compare what the next one finds."""
        self.machine.journal.commit()
        expected = self.state()
        self.start(**settings)
        assert self.state() == expected, differences(self.state(), expected)
        assert self.machine.log.warnings == []


def test_an_entry_that_was_acknowledged_after_its_producer_was_forgotten() -> None:
    session = Session()
    session.ask("XADD s 1-1 first 0", "XCFGSET s IDMP-DURATION 1", "XADD s IDMP p 1 MAXLEN 2 * a 1")
    session.wait(3)
    session.ask("XADD s IDMP p 1 MAXLEN 2 * a 2")
    assert session.ask("XLEN s") == b":2\r\n"
    session.check_restart()


def test_how_many_messages_are_remembered_is_what_it_was_when_the_stream_was_made() -> None:
    session = Session()
    session.ask("CONFIG SET stream-idmp-maxsize 1", *(f"XADD s IDMP p {id} * a {id}" for id in (1, 2, 1)))
    assert session.ask("XLEN s") == b":3\r\n"
    session.check_restart()
    session.ask("CONFIG SET stream-idmp-maxsize 200", *(f"XADD t IDMP p {id} * a 1" for id in (*range(1, 103), 1)))
    assert session.ask("XLEN t") == b":102\r\n"
    session.check_restart()
    assert session.ask("XINFO STREAM t").count(b"200") == 1


@pytest.mark.parametrize("trim", ["XTRIM s MAXLEN = 4 ACKED", "XADD s ACKED MAXLEN = 5 7-0 f v"])
def test_a_trim_that_spares_what_is_pending_does_not_depend_on_nodes(trim: str) -> None:
    session = Session(stream_node_max_entries="3")
    session.ask(*(f"XADD s {ms}-0 f v" for ms in range(1, 7)), "XGROUP CREATE s g 0")
    session.ask("XREADGROUP GROUP g c STREAMS s >", "XACK s g 3-0 4-0 5-0 6-0", trim)
    session.check_restart(stream_node_max_entries="100")
    session.check_restart(stream_node_max_entries="2")


def test_setting_the_last_id_does_not_depend_on_tombstones() -> None:
    session = Session(stream_node_max_entries="1")
    session.ask("XADD s 1-0 f v", "XADD s 5-0 f v", "XDEL s 5-0", "XSETID s 5-0 MAXDELETEDID 0-1")
    assert session.ask("XSETID s 2-0") == b"+OK\r\n"
    session.ask("XADD s 3-0 f v", "XADD s 5-0 again v")
    session.check_restart(stream_node_max_entries="100")
    assert session.ask("XRANGE s 3-0 5-0").count(b"-0\r\n") == 2


def test_what_redis_7_0_takes_is_repeated() -> None:
    """XSETID below an ID that was deleted, and what followed it; we refuse it to clients, as later versions do."""
    session = Session()
    lines = ("XADD s 1-0 f v", "XADD s 5-0 f v", "XDEL s 5-0", "XSETID s 2-0", "XADD s 3-0 f v")
    applier = Applier(session.machine.engine, session.machine.engine.clocks.unix_ms())
    assert [applier.run(line.encode().split()) for line in lines] == [None] * len(lines)
    applier.end()
    assert session.ask("XRANGE s - +").count(b"-0\r\n") == 2
    assert session.ask("XSETID s 4-0").startswith(b"-ERR")


@pytest.mark.parametrize("version", ["7.0", "7.2", "8.6", "8.8", "auto"])
def test_a_base_for_an_older_server_keeps_what_that_cannot_hold(version: str) -> None:
    session = Session(rdb_compatibility_version=version)
    session.ask("XADD s IDMP p 1 * a 1", "XADD s IDMP p 2 * a 1", "XGROUP CREATE s g 0", "XGROUP CREATE s h 0")
    session.ask("XREADGROUP GROUP g alice COUNT 1 STREAMS s >", "XREADGROUP GROUP g bob STREAMS s >")
    [first, second] = [str(id) for id, _ in session.machine.engine.databases[0].values[b"s"].range()]
    session.ask(f"XNACK s g FAIL IDS 1 {second}", "XGROUP CREATECONSUMER s h headrace-released")
    session.ask(f"XCLAIM s h headrace-released 0 {first} FORCE", f"XNACK s h FAIL IDS 1 {second} FORCE")
    session.ask("BGREWRITEAOF")
    session.machine.store.tick()
    session.check_restart()
    assert session.ask("XADD s IDMP p 1 * a 1") == f"${len(first)}\r\n{first}\r\n".encode()
    session.check_restart()
    assert session.ask("XLEN s") == b":2\r\n"


def test_a_limit_that_was_lower_at_the_start() -> None:
    session = Session(proto_max_bulk_len="1mb")
    session.ask("CONFIG SET proto-max-bulk-len 4mb", "SETRANGE t 2000000 end", "APPEND t more")
    session.check_restart()


def test_a_write_at_the_end_of_a_pause_does_not_go_into_a_key_whose_time_has_come() -> None:
    session = Session()
    for pause in (["CLIENT PAUSE 100 WRITE"], ["CLIENT PAUSE 100000 WRITE"]):
        session.ask("SET s v PX 50")
        if pause[0].endswith("00000 WRITE"):
            # In a transaction that pauses, what follows runs all the same.
            session.now_ms += 60
            session.ask("MULTI", *pause, "DEL t", "XADD s * f v", "RENAME s t", "EXEC")
            session.machine.engine.pauses.end()
            session.ask("RENAME t s")
        else:
            session.ask(*pause)
            session.now_ms += 200  # what looked before the chores of the pause were done
            session.ask("XADD s * f v")
        session.wait(1)
        assert session.ask("TYPE s") == b"+stream\r\n"
        assert session.ask("TTL s") == b":-1\r\n"
        session.check_restart()
        session.ask("DEL s")


def test_reloading_leaves_nothing_out_of_the_journal() -> None:
    session = Session()
    session.ask("SET k old PX 50")
    session.now_ms += 100
    session.ask("DEBUG RELOAD", "SETNX k new")
    assert session.ask("GET k") == b"$3\r\nnew\r\n"
    session.check_restart()


def test_a_transaction_cannot_load_files_that_do_not_have_it() -> None:
    session = Session()
    reply = session.ask("MULTI", "SET k v", "DEBUG LOADAOF", "SET l v", "EXEC")
    assert reply.count(b"-ERR The append only files cannot be loaded by a transaction") == 1
    assert session.ask("MGET k l") == b"*2\r\n$1\r\nv\r\n$1\r\nv\r\n"
    session.check_restart()


def test_an_entry_that_is_too_large_leaves_no_stream_behind() -> None:
    session = Session()
    too_large = bytes(2**30 + 1)  # nobody touches its pages
    assert session.client.run("XADD", "s", "*", "f", too_large).startswith(b"-ERR Elements are too large")
    assert session.ask("EXISTS s") == b":0\r\n"
    assert session.ask("XADD s 1-0 f v", "XLEN s") == b":1\r\n"
    session.check_restart()


def test_deliveries_that_were_repeated_are_counted() -> None:
    session = Session()
    session.ask("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    session.wait(1)
    session.ask("XREADGROUP GROUP g c STREAMS s 0", "XREADGROUP GROUP g c STREAMS s 0")
    assert session.ask("XPENDING s g - + 10").endswith(b":3\r\n")
    session.check_restart()


def test_a_consumer_that_found_nothing_to_claim_is_there() -> None:
    session = Session()
    session.ask("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XCLAIM s g one 0 1-0", "XAUTOCLAIM s g two 0 0")
    assert session.ask("XINFO CONSUMERS s g").count(b"name") == 2
    session.check_restart()


def test_a_claim_keeps_its_time_by_a_clock_that_was_set_back() -> None:
    session = Session()
    session.ask("XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    session.now_ms -= 3_600_000
    session.check_restart()


def test_a_renamed_command_is_repeated_by_the_name_it_was_born_with() -> None:
    session = Session()
    session.ask("SET k v", "DEL other")
    expected = session.state()
    machine = Machine.__new__(Machine)
    machine.prepare(session.disk, lambda: session.now_ms, session.settings)
    machine.engine.commands.rename(b"set", b"put")
    machine.engine.commands.rename(b"get", b"set")
    machine.open()
    assert take_state(machine.engine) == expected


# --- what is no effect -----------------------------------------------------------------------------------------------


def with_line(line: str) -> MemoryDisk:
    """A directory whose increment ends with a command."""
    session = Session()
    session.ask("SET before v")
    session.machine.store.close()
    [increment] = [path for path in session.disk.files if path.name.endswith(".incr.aof")]
    words = line.split(" ")
    session.disk.files[increment] += f"*{len(words)}\r\n".encode()
    session.disk.files[increment] += b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)
    return session.disk


@pytest.mark.parametrize(
    "line",
    [
        *("CONFIG SET maxmemory 1", "ACL SETUSER default on nopass", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0", "GET before"),
        *("CLIENT PAUSE 100", "SAVE", "BGREWRITEAOF", "SUBSCRIBE c", "SCRIPT KILL", "REPLICAOF NO ONE"),
        *("AUTH x", "DISCARD", "WATCH before", "MONITOR", "FUNCTION LIST", "XINFO STREAM s", "ECHO x"),
    ],
)
def test_what_does_not_change_data_is_damage_and_is_named(line: str) -> None:
    disk = with_line(line)
    with pytest.raises(CannotRecover) as caught:
        Machine(disk, lambda: BEGINNING_MS, {})
    assert line.split(" ", maxsplit=1)[0] in str(caught.value)
    assert "offset" in str(caught.value)


@pytest.mark.parametrize("line", ["CONFIG SET maxmemory 1", "ACL SETUSER default on nopass", "SHUTDOWN NOSAVE"])
def test_who_only_reads_files_names_it_too(line: str) -> None:
    """That is `headrace check` by the one way, and `inspect`, `convert` and Spark by the other."""
    disk = with_line(line)
    report = finish(check(ROOT, disk))
    assert report.problems == 1
    [problem] = [problem for file in report.files for problem in file.problems]
    assert "does not change data" in problem.text
    with pytest.raises(CannotRecover, match="does not change data"):
        finish(read_data(ROOT, OperatorLog(), disk))


@pytest.mark.parametrize("line", ["SELECT 1", "SCRIPT FLUSH", "EVAL return{redis.call('SET','x','y')} 0", "HSET h f v"])
def test_what_redis_has_ever_written_is_repeated(line: str) -> None:
    machine = Machine(with_line(line), lambda: BEGINNING_MS, {})
    assert machine.log.warnings == []
    assert machine.engine.databases[0].values[b"before"] == b"v"


def test_every_command_of_the_table_is_an_effect_or_is_refused() -> None:
    """No command may be run by a file only because nobody thought of it: it writes, or is one of a short list."""
    applier = Applier(Session().machine.engine, Session().machine.engine.clocks.unix_ms())
    for found in TABLE.values():
        for command in found.subcommands.values() or (found,):
            if command.flags & Flag.WRITE or command.name in BESIDE_WRITES:
                continue
            words = [*command.name.split(b"|"), *[b"1"] * (abs(command.arity) - len(command.name.split(b"|")))]
            error = applier.run(words)
            assert error is not None, command.name
            assert b"does not change data" in error, command.name
    applier.end()
