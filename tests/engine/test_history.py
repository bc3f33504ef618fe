"""Entries on disk, as commands meet them: the same replies, and the client alone waits."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.core.stream import Stream
from headrace.formats.stream_value import dump_stream
from support.campaign import LONG
from support.in_process import InProcess, InProcessClient
from support.memory_runs import MemoryRun, offload
from support.random_commands import CommandWriter

RECORDING = Path(__file__).parent.parent / "golden" / "redis-8.9-transcripts.jsonl.gz"
IN_A_SCRIPT = b"return redis.pcall(unpack(ARGV))"


class ColdHost(InProcess):
    """An engine that moves all it can out of memory after each command; what is read is read later."""

    def __init__(self, *, run_bytes: int, cache_bytes: int) -> None:
        super().__init__()
        self.due: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.runs: list[MemoryRun] = []
        self.run_bytes = run_bytes
        self.engine.history.cache.limit = cache_bytes
        self.engine.history.beside = lambda job, done: self.due.append((job, done))
        self.waits_seen = 0

    def offload(self) -> None:
        for db in self.engine.databases:
            for value in db.values.values():
                if type(value) is Stream:
                    while run := offload(value, self.engine.history.cache, self.run_bytes):
                        self.runs.append(run)

    def read(self) -> None:
        """Do what a thread would do."""
        job, done = self.due.pop(0)
        done(job())

    def run_to_the_end(self, client: InProcessClient, argv: list[bytes]) -> bytes:
        self.engine.execute(client.client, list(argv))
        while client.client.postponed is not None:
            self.waits_seen += 1
            self.read()
        return client.reply()


def requests(command: list[bytes], dice: random.Random) -> list[list[bytes]]:
    """Send a command as it is, in a transaction, or in a script."""
    way = dice.random()
    if way < 0.7:
        return [command]
    if way < 0.85:
        return [[b"MULTI"], command, *([command] if way < 0.75 else []), [b"EXEC"]]
    return [[b"EVAL", IN_A_SCRIPT, b"0", *command]]


@pytest.mark.parametrize("seed", range(40))
def test_random_commands_have_the_replies_that_they_have_in_memory(seed: int) -> None:
    dice = random.Random(seed)
    writer = CommandWriter(seed)
    run_bytes, cache_bytes, entries = (dice.choice(each) for each in ((1, 500, 5000), (0, 4000, 1 << 20), (2, 3, 4)))
    hot, cold = InProcess(), ColdHost(run_bytes=run_bytes, cache_bytes=cache_bytes)
    clients = [(hot.connect(), cold.connect()) for _ in range(2)]
    for host in (hot, cold):
        host.run("CONFIG", "SET", "stream-node-max-entries", entries)
        host.set_clock(1_700_000_000_000)
    for step in range(250):
        command = writer.valid() if dice.random() < 0.9 else writer.spoil(writer.valid())
        number = dice.randrange(2)
        if clients[number][0].waits:
            continue
        for request in requests(command, dice):
            hot.engine.execute(clients[number][0].client, list(request))
            wanted = clients[number][0].reply()
            assert cold.run_to_the_end(clients[number][1], request) == wanted, (step, request)
        cold.offload()
    assert cold.runs
    assert hot.take_effects() == cold.take_effects()


@pytest.mark.parametrize("entries", [1, 3])
def test_commands_of_redis_8_have_the_replies_that_they_have_in_memory(entries: int) -> None:
    """XDELEX, XACKDEL, XNACK, trims with ACKED and DELREF, idempotent producers: as recorded, but with small nodes."""
    recorded = [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]
    runs = 0
    for scenario in recorded[entries :: 1 if LONG else 4]:
        hot, cold = InProcess(), ColdHost(run_bytes=entries * 40, cache_bytes=200)
        for host in (hot, cold):
            host.run("CONFIG", "SET", "stream-node-max-entries", entries)
            host.set_clock(1_700_000_000_000)
        for number, step in enumerate(scenario["steps"]):
            command = [word.encode("latin-1") for word in step["cmd"]]
            wanted = hot.run(*command)
            assert cold.run_to_the_end(cold, command) == wanted, (scenario["seed"], number, command)
            cold.offload()
        assert hot.take_effects() == cold.take_effects()
        runs += len(cold.runs)
    assert runs > 200


def cold_stream(entries: int = 100, *, cache_bytes: int = 0) -> ColdHost:
    host = ColdHost(run_bytes=1000, cache_bytes=cache_bytes)
    host.run("CONFIG", "SET", "stream-node-max-entries", 5)
    for number in range(1, entries + 1):
        host.run("XADD", "s", f"{number}-1", "f", f"v{number}")
    host.run("XGROUP", "CREATE", "s", "g", "0")
    host.take_effects()
    host.offload()
    for run in host.runs:
        host.engine.history.cache.forget(run)
    return host


def damage(host: ColdHost, text: bytes) -> None:
    """Spoil the node in which a value lies."""
    (run,) = [run for run in host.runs if text in run.data]
    place = run.data.index(text)
    run.data = run.data[: place - 1] + b"\x85" + run.data[place:]


@pytest.mark.parametrize(
    "command",
    [
        "XRANGE s 12 14",
        "XREVRANGE s 14 12 COUNT 1",
        "XREAD COUNT 2 STREAMS s 30",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XDEL s 17-1",
        "XDELEX s IDS 1 17-1",
        "XCLAIM s g c 0 17-1 FORCE",
        "XTRIM s MAXLEN 83",
        "XTRIM s MINID 18",
        "XTRIM s MAXLEN 80 DELREF",
        "XADD s MAXLEN 84 * f v",
        "XINFO STREAM s",
        "HEADRACE NODES s 17 20",
        "EVAL return#redis.call('XRANGE','s','12','12') 0",
        "EVAL redis.call('GET','a')#return#redis.call('XDEL','s','12-1') 0",
    ],
)
def test_who_reads_waits_and_others_do_not(command: str) -> None:
    host = cold_stream(cache_bytes=1 << 20)
    reader = host.connect()
    reader.run(*(word.replace("#", " ") for word in command.split()))
    assert reader.client.postponed is not None
    assert host.take_effects() == []
    assert host.run("PING") == b"+PONG\r\n"
    assert b"blocked_clients:1" in host.run("INFO", "clients")
    while host.due:
        host.read()
    assert reader.reply() != b""
    assert reader.client.postponed is None
    again = host.connect()
    assert again.run("XRANGE", "s", "18", "18") != b""  # it is cached by now


def test_two_that_miss_the_same_are_served_by_one_read() -> None:
    host = cold_stream(cache_bytes=1 << 20)
    readers = [host.connect() for _ in range(3)]
    for reader in readers:
        reader.run("XRANGE", "s", "12", "14")
    assert len(host.due) == 1
    while host.due:
        host.read()
    assert len({reader.reply() for reader in readers}) == 1


TRANSACTIONS = [
    ["XRANGE s 12 12"],
    ["SET a 1", "XRANGE s 12 12", "XREVRANGE s 60 50 COUNT 2"],
    ["XREADGROUP GROUP g c COUNT 7 STREAMS s >", "XREADGROUP GROUP g c COUNT 7 STREAMS s >", "XACK s g 1-1"],
    ["XADD s * f new", "XDEL s 17-1 40-1", "XDELEX s IDS 1 22-1", "XLEN s"],
    ["XCLAIM s g c 0 17-1 33-1 FORCE", "XAUTOCLAIM s g d 0 -", "XACKDEL s g IDS 1 17-1", "XPENDING s g"],
    ["XADD s MAXLEN 84 * f v", "XTRIM s MINID 20", "XINFO STREAM s FULL COUNT 2"],
    ["XREAD COUNT 2 STREAMS s 30", "HEADRACE NODES s 17 20", "XRANGE missing - +", "XREADGROUP GROUP no c STREAMS s >"],
    ["XADD s IDMP p 1 * f v", "XADD s IDMP p 1 * f v", "XADD new 1-1 f v", "XINFO STREAM s", "XDEL s 61-1"],
    ["XTRIM s MAXLEN 50 DELREF", "XRANGE s 1 70 COUNT 3"],
]


@pytest.mark.parametrize("commands", TRANSACTIONS, ids=lambda commands: commands[0])
def test_a_transaction_waits_before_it_begins_and_runs_once(commands: list[str]) -> None:
    """Whatever its commands need is in memory before the first of them runs: while they run, nothing is read."""
    hot = InProcess()
    hot.run("CONFIG", "SET", "stream-node-max-entries", 5)
    for number in range(1, 101):
        hot.run("XADD", "s", f"{number}-1", "f", f"v{number}")
    hot.run("XGROUP", "CREATE", "s", "g", "0")
    hot.take_effects()
    cold = cold_stream(cache_bytes=1 << 20)
    bystander = cold.connect()
    for host in (hot, cold):
        host.set_clock(1_700_000_000_000)
        for command in ("MULTI", *commands):
            host.run(*command.split())
    wanted = hot.run("EXEC")
    cold.run("EXEC")
    while cold.client.postponed is not None:
        assert bystander.run("SET", "b", "1") == b"+OK\r\n"
        cold.read()
        read = sum(run.blocks_read for run in cold.runs)
    assert cold.waits_seen == 0
    assert cold.reply() == wanted
    assert sum(run.blocks_read for run in cold.runs) == read
    effects = [effect for effect in cold.take_effects() if effect[1][1] != b"b"]
    assert effects == hot.take_effects()


def test_a_watched_key_that_changes_while_a_transaction_waits_fails_it() -> None:
    host = cold_stream(cache_bytes=1 << 20)
    for command in ("WATCH w", "MULTI", "XDEL s 12-1", "EXEC"):
        host.run(*command.split())
    assert host.client.postponed is not None
    host.connect().run("SET", "w", "1")
    while host.due:
        host.read()
    assert host.reply() == b"*-1\r\n"
    assert host.run("XLEN", "s") == b":100\r\n"


def test_a_script_that_has_only_read_begins_again_and_one_that_has_done_more_reads_at_once() -> None:
    host = cold_stream(cache_bytes=1 << 20)
    reads = "redis.call('GET', 'a') local found = redis.pcall('XRANGE', 's', '12', '12') redis.call('INCR', 'n') "
    host.run("EVAL", reads + "return {found, redis.call('XRANGE', 's', '70', '70')}", 0)
    assert host.client.postponed is not None
    assert host.connect().run("GET", "n") == b"$-1\r\n"
    while host.client.postponed is not None:
        host.read()
    reply = host.reply()
    assert b"v12" in reply
    assert b"v70" in reply  # without a wait
    assert host.run("GET", "n") == b"$1\r\n1\r\n"
    for first in ("redis.call('PUBLISH', 'c', 'm')", "redis.call('SET', 'a', '1')"):
        host = cold_stream()
        assert b"v13" in host.run("EVAL", first + " return redis.call('XRANGE', 's', '13', '13')", 0)


def test_a_function_begins_again_too_and_a_transaction_with_a_script_reads_at_once() -> None:
    host = cold_stream(cache_bytes=1 << 20)
    code = "redis.register_function('f', function() return redis.call('XRANGE', 's', '12', '12') end)"
    host.run("FUNCTION", "LOAD", "#!lua name=l\n" + code)
    assert b"v12" in host.run_to_the_end(host, b"FCALL f 0".split())
    assert host.waits_seen > 0
    host.run("MULTI")
    host.run("EVAL", "return redis.call('XRANGE', 's', '50', '50')", 0)
    assert b"v50" in host.run("EXEC")


@pytest.mark.parametrize("compatibility", ["auto", "7.0", "7.2", "8.6", "8.8"])
def test_a_dump_is_made_beside_the_loop_of_the_moment_when_it_was_asked_for(compatibility: str) -> None:
    host = cold_stream()
    host.run("CONFIG", "SET", "rdb-compatibility-version", compatibility)
    for command in ("XDEL s 33-1", "XREADGROUP GROUP g c COUNT 40 STREAMS s >", "XADD s IDMP p 1 200-* f v"):
        host.run_to_the_end(host, command.encode().split())
    wanted = dump_stream(host.engine.databases[0].values[b"s"], compatibility)
    host.offload()
    reader = host.connect()
    reader.run("DUMP", "s")
    work = host.due.pop()
    for command in ("XADD s 300-1 f v", "XTRIM s MAXLEN 10", "XACK s g 3-1", "DEL s"):
        host.run_to_the_end(host, command.encode().split())
    assert reader.client.postponed is not None
    assert host.engine.history.waiting == 1
    host.due.append(work)
    host.read()
    assert reader.reply() == b"$%d\r\n%b\r\n" % (len(wanted), wanted)
    assert reader.run("DUMP", "s") == b"$-1\r\n"
    assert host.engine.history.waiting == 0


def test_a_dump_that_no_restore_would_take_is_refused() -> None:
    host = cold_stream()
    host.run("CONFIG", "SET", "proto-max-bulk-len", 1 << 20)
    assert not host.run_to_the_end(host, [b"DUMP", b"s"]).startswith(b"-")
    for number in range(200, 1400):
        host.run("XADD", "s", f"{number}-1", "f", "x" * 1000)
    assert not host.run("DUMP", "s").startswith(b"-")
    host.offload()
    assert host.run("DUMP", "s").startswith(b"-ERR the stream is larger than proto-max-bulk-len (1048576 bytes)")


def test_a_dump_that_meets_damage_is_an_error_and_the_next_request_is_answered() -> None:
    host = cold_stream()
    damage(host, b"v17")
    assert host.run_to_the_end(host, [b"DUMP", b"s"]).startswith(b"-IOERR ")
    assert host.run("PING") == b"+PONG\r\n"


def test_a_client_that_leaves_is_not_waited_for() -> None:
    host = cold_stream()
    reader = host.connect()
    reader.run("XRANGE", "s", "12", "14")
    host.engine.disconnect(reader.client)
    host.read()
    assert not host.due
    assert host.engine.history.waiting == 0


def test_a_cache_of_nothing_ends_in_an_answer() -> None:
    host = cold_stream()
    assert host.run_to_the_end(host, [b"XRANGE", b"s", b"-", b"+"]).count(b"v") >= 100
    assert host.waits_seen < 20


def test_damage_is_one_error_and_nothing_has_changed() -> None:
    host = cold_stream()
    damage(host, b"v17")
    for command in (
        b"XRANGE s 17 17",
        b"XREADGROUP GROUP g c COUNT 50 STREAMS s >",
        b"XDEL s 3-1 17-1",
        b"XCLAIM s g c 0 3-1 17-1 FORCE",
    ):
        reply = host.run_to_the_end(host, command.split())
        assert reply.startswith(b"-IOERR "), reply
    assert host.take_effects() == []
    assert host.run("XLEN", "s") == b":100\r\n"
    assert host.run("XPENDING", "s", "g").startswith(b"*4\r\n:0\r\n")
    assert b"v30" in host.run_to_the_end(host, b"XRANGE s 30 30".split())


@pytest.mark.parametrize("trim", ["MAXLEN = 82", "MAXLEN ~ 85", "MINID = 18", "MINID ~ 16", "DELREF MAXLEN = 82"])
def test_a_trim_that_meets_damage_changes_nothing(trim: str) -> None:
    host = cold_stream()
    damage(host, b"v17")
    words = trim.replace("DELREF ", "").split() + (["DELREF"] if "DELREF" in trim else [])
    reply = host.run_to_the_end(host, [b"XTRIM", b"s", *(word.encode() for word in words)])
    assert reply.startswith(b"-IOERR "), reply
    assert host.take_effects() == []
    assert host.run("XLEN", "s") == b":100\r\n"


@pytest.mark.parametrize("words", ["MAXLEN = 82", "MAXLEN ~ 85", "MINID = 18", "IDMP p 1 ACKED MAXLEN = 82"])
def test_an_append_is_not_stopped_by_damage_that_its_trim_meets(words: str) -> None:
    """It answered IOERR although the entry was there, and the entry was in no effect."""
    host = cold_stream()
    host.run("XGROUP", "SETID", "s", "g", "$")
    host.take_effects()
    damage(host, b"v17")
    host.set_clock(200)
    command = ["XADD", "s", *words.split(), "*", "f", "v"]
    assert host.run_to_the_end(host, [word.encode() for word in command]) == b"$5\r\n200-0\r\n"
    assert host.run("XLEN", "s") == b":101\r\n"
    producer = [b"IDMP", b"p", b"1"] if "IDMP" in words else []
    assert host.take_effects() == [(0, [b"XADD", b"s", *producer, b"200-0", b"f", b"v"])]
    reply = host.run_to_the_end(host, b"XADD s MAXLEN = 60 201-1 f v".split())
    assert reply == b"$5\r\n201-1\r\n"  # the node goes as a whole
    assert host.run("XLEN", "s") == b":60\r\n"


def test_a_rule_that_limits_bytes_counts_those_on_disk() -> None:
    host = cold_stream()
    on_disk = sum(run.kept_bytes for run in host.runs)
    host.run("HEADRACE", "POLICY", "SET", "s", "MAXBYTES", on_disk // 2)
    host.run("XADD", "s", "200-1", "f", "v")
    left = int(host.run("XLEN", "s")[1:])
    assert 30 < left < 60
    assert sum(run.kept_bytes for run in host.runs) <= on_disk // 2
    assert host.take_effects()[-1][1][:4] == [b"XTRIM", b"s", b"MINID", b"="]


@pytest.mark.parametrize("limit", ["MAXLEN 83", "MAXBYTES 1500"])
def test_a_rule_that_meets_damage_lets_appends_go_on(limit: str) -> None:
    host = cold_stream()
    damage(host, b"v17")
    host.run("HEADRACE", "POLICY", "SET", "s", *limit.split())
    for number in range(200, 210):
        assert host.run("XADD", "s", f"{number}-1", "f", "v") == b"$5\r\n%d-1\r\n" % number
    assert int(host.run("XLEN", "s")[1:]) < 110


def test_a_pause_that_begins_meanwhile_leaves_nothing_behind() -> None:
    host = cold_stream(cache_bytes=1 << 20)
    host.set_clock(1_000)
    reader = host.connect()
    reader.run("XRANGE", "s", "12", "14")
    host.read()  # the index; what follows is the last that it misses
    host.run("CLIENT", "PAUSE", "100", "ALL")
    host.read()
    assert reader.client.postponed is not None  # by the pause
    assert reader.reply() == b""
    host.set_clock(1_200)
    host.engine.tick()
    assert b"v12" in reader.reply()
    assert host.engine.history._read == {}


def test_rules_pass_over_what_cannot_be_read() -> None:
    host = cold_stream()
    bugs: list[Exception] = []
    host.engine.hooks.failure = lambda _, bug: bugs.append(bug)
    host.set_clock(1_000)
    host.run("HEADRACE", "POLICY", "SET", "s", "GROUP", "g", "VISIBILITY", "10", "MAXDELIVERIES", "1")
    host.run_to_the_end(host, b"XREADGROUP GROUP g c COUNT 40 STREAMS s >".split())
    for run in host.runs:
        host.engine.history.cache.forget(run)
    damage(host, b"v17")
    host.set_clock(2_000)
    for _ in range(3):
        host.engine.tick()
    assert bugs == []
    assert host.run("XLEN", "s:dead") == b":35\r\n"
    assert host.run("XPENDING", "s", "g").startswith(b"*4\r\n:5\r\n")
