"""Whole sessions, mutated: connections that come, block, queue, subscribe, run scripts, stop in the middle and leave.

The server is killed, stopped and started again on the same directory. All the time it answers other clients, its log
holds no error of ours, and its memory stays within limits. After each start it has what it had: every key, group and
library is the same as before the stop, or before a kill at a moment when everything was acknowledged.

    HEADRACE_LONG=1      an hour, of seeds never used before
    HEADRACE_SEED=n      the session of that seed, though not its timing
"""

import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from support.campaign import LONG, SEED
from support.companion_commands import CompanionCommands
from support.patience import PATIENCE_S
from support.random_commands import CommandWriter
from support.raw_client import encode
from support.server_process import ServerProcess

HOUR_S = 3600
STEPS = 400
MOST_CONNECTIONS = 12
MOST_MEMORY = 400 << 20
OURS = ("please report this", "Traceback", "Exception", "internal error")

LINES = [
    *("MULTI", "EXEC", "DISCARD", "WATCH s1 t0", "UNWATCH", "RESET", "HELLO 3", "HELLO 2", "SELECT 0", "SELECT 2"),
    *("XREAD BLOCK 50 STREAMS s1 s2 $ $", "XREADGROUP GROUP g1 alice BLOCK 50 STREAMS s1 >", "BLPOP l0 l1 0.05"),
    *("XREAD BLOCK 0 STREAMS s1 $", "BLMOVE l0 l1 LEFT RIGHT 0", "BZPOPMIN z0 0", "BRPOP l0 l1 l2 0", "WAITAOF 1 0 20"),
    *("SUBSCRIBE c1 c2", "PSUBSCRIBE c*", "UNSUBSCRIBE", "PUBLISH c1 hello", "SSUBSCRIBE c1", "SPUBLISH c1 x"),
    *("CLIENT PAUSE 20 WRITE", "CLIENT UNPAUSE", "CLIENT LIST", "CLIENT REPLY SKIP", "CLIENT REPLY OFF", "CLIENT INFO"),
    *("CLIENT KILL TYPE normal SKIPME yes MAXAGE 100000", "CLIENT NO-TOUCH on", "CLIENT SETNAME n", "CLIENT ID"),
    *("BGSAVE", "SAVE", "BGREWRITEAOF", "INFO everything", "CONFIG GET *", "MEMORY USAGE s1", "SLOWLOG GET"),
    *("FLUSHDB", "SWAPDB 0 1", "RANDOMKEY", "SCAN 0", "DEBUG RELOAD", "OBJECT FREQ t0", "COPY s1 s2 REPLACE"),
    *("CONFIG SET appendfsync always", "CONFIG SET appendfsync everysec", "CONFIG SET stream-node-max-entries 3"),
    *("CONFIG SET notify-keyspace-events KEA", "CONFIG SET maxmemory 0", "CONFIG SET appendonly yes"),
    *("HEADRACE NODES s1 - +", "HEADRACE SPLITS s1 - + 3", "HEADRACE COMMIT s1 q 1 0", "HEADRACE FORGET s1 q"),
    *(
        "MONITOR",
        "CLIENT TRACKING on",
        "CLIENT TRACKING on BCAST PREFIX s",
        "CLIENT TRACKING off",
        "CLIENT CACHING yes",
    ),
    *("FUNCTION LIST", "FUNCTION FLUSH", "FUNCTION STATS", "FUNCTION DUMP", "FCALL add 1 s1 x", "FCALL_RO size 1 s1"),
    *("SORT l0 ALPHA", "SORT l0 BY w* STORE l2", "SORT_RO t0", "ACL SETUSER u on nopass +@read ~s*", "ACL DELUSER u"),
    *("AUTH u x", "ACL LOG", "SCRIPT KILL", "SCRIPT FLUSH", "FUNCTION KILL", "LATENCY HISTOGRAM", "HSCAN h0 0 COUNT 3"),
    *("CONFIG SET appendonly no", "DEBUG LOADAOF", "DEBUG RELOAD NOSAVE", "CONFIG SET maxmemory 1", "CONFIG RESETSTAT"),
    *("CONFIG SET busy-reply-threshold 5", "CONFIG SET lua-memory-limit 3mb", "XREAD BLOCK 1 STREAMS s1 s1 $ $"),
    *("XADD s1 IDMP p 1 * a 1", "XCFGSET s1 IDMP-DURATION 1", "XADD s1 MAXLEN ~ 50 * a 1", "AUTH default wrong"),
]
SCRIPTS = [
    "return redis.call('XADD', KEYS[1], '*', 'a', ARGV[1])",
    "redis.call('SET', 't0', '1'); return redis.call('LPUSH', 's1', 'x')",
    "for i = 1, 200 do redis.call('XADD', KEYS[1], '*', 'n', i) end return redis.call('XLEN', KEYS[1])",
    "return {1, {2, {3, {4, 'x', false, 3.7}}}, redis.status_reply('S'), redis.error_reply('E')}",
    "return redis.pcall('XREADGROUP', 'GROUP', 'g1', 'lua', 'STREAMS', KEYS[1], '>')",
    "local t = {} for i = 1, 300 do t[i] = i end return redis.call('RPUSH', 'l0', unpack(t))",
    "error('x')",
    "for i = 1, 200000 do redis.call('EXISTS', KEYS[1]) end",
    "return string.rep('x', 4000000)",
]
LIBRARY = (
    "#!lua name=lib\n"
    "redis.register_function('add', function(keys, args) return redis.call('XADD', keys[1], '*', 'f', args[1]) end)\n"
    "redis.register_function{function_name='size', callback=function(keys) return redis.call('TYPE', keys[1]) end,"
    " flags={'no-writes'}}"
)


class Session:
    """Several connections to one server, driven by one source of chance."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = random.Random(seed)
        self._streams = CommandWriter(seed)
        self._others = CompanionCommands(seed)
        self._directory = directory
        self._arguments = (
            *("--appendonly", "yes", "--appendfsync", self.random.choice(("always", "everysec"))),
            *("--enable-debug-command", "yes", "--proto-max-bulk-len", "1mb", "--save", ""),
            *("--busy-reply-threshold", "50"),
        )
        self.server = ServerProcess(directory, *self._arguments).__enter__()
        self._connections: list[socket.socket] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            chance = self.random.random()
            if chance < 0.005:
                self._end_and_compare(self.random.choice((signal.SIGTERM, signal.SIGKILL)))
            elif chance < 0.01:
                self._kill()
            elif chance < 0.08 or not self._connections:
                self._connect()
            elif chance < 0.12:
                self._leave()
            elif chance < 0.2:
                self._read()
            else:
                self._send()
        self._end_and_compare(signal.SIGTERM)
        assert self.server.resident_bytes() < MOST_MEMORY

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        self.server.__exit__(None, None, None)

    # --- steps -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            self._leave()
        opened = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE_S)
        opened.setblocking(False)
        self._connections.append(opened)

    def _leave(self) -> None:
        if self._connections:
            self._connections.pop(self.random.randrange(len(self._connections))).close()

    def _read(self) -> None:
        for connection in self._connections:
            with suppress(OSError):
                connection.recv(self.random.choice((1, 100, 1 << 16)))

    def _send(self) -> None:
        data = b"".join(self._request() for _ in range(self.random.choice((1, 1, 2, 8))))
        if self.random.random() < 0.1:
            data = data[: self.random.randrange(len(data) + 1)]
        if self.random.random() < 0.05:
            spoilt = bytearray(data)
            for _ in range(3):
                if spoilt:
                    spoilt[self.random.randrange(len(spoilt))] = self.random.choice(b"\x00*$\r\n-9\xff")
            data = bytes(spoilt)
        connection = self.random.choice(self._connections)
        try:
            connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self._connections.remove(connection)
            connection.close()

    def _request(self) -> bytes:
        match self.random.randrange(12):
            case 0 | 1 | 2:
                return encode(self._streams.valid())
            case 3:
                return encode(self._streams.spoil(self._streams.valid()))
            case 4 | 5:
                return encode(self._others.valid())
            case 6:
                return encode(self._others.spoil(self._others.valid()))
            case 7 if self.random.random() < 0.1:
                return encode([b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY.encode()])
            case 7:
                script = self.random.choice(SCRIPTS).encode()
                return encode([b"EVAL", script, b"1", self.random.choice((b"s1", b"s2", b"t0")), b"arg"])
            case _:
                return encode([word.encode() for word in self.random.choice(LINES).split()])

    # --- beginning and end of servers --------------------------------------------------------------------------

    def _start(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections = []
        self._look_at_log()
        self.server = ServerProcess(self._directory, *self._arguments).__enter__()
        self._look_at_log()

    def _look_at_log(self) -> None:
        for text in OURS:
            assert text not in self.server.log, self.server.log

    def _kill(self) -> None:
        self.server.stop(signal.SIGKILL)
        self._start()

    def _end_and_compare(self, number: signal.Signals) -> None:
        """Wait until no client changes anything, note the data, end the server, start it again, and compare."""
        for connection in self._connections:
            connection.close()
        self._connections = []
        with redis.Redis(port=self.server.port, socket_timeout=PATIENCE_S) as admin:
            self._await_quiet(admin)
            admin.execute_command("CONFIG", "SET", "appendonly", "yes", "maxmemory", "0")
            admin.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
            before = self._digest(admin)
        code = self.server.stop(number)
        assert code == (0 if number == signal.SIGTERM else -number), self.server.log
        self._start()
        with redis.Redis(port=self.server.port, socket_timeout=PATIENCE_S) as admin:
            after = self._digest(admin)
        pairs = {where: (before.get(where), after.get(where)) for where in before | after}
        differing = {where: pair for where, pair in pairs.items() if pair[0] != pair[1]}
        assert not differing, (number, differing)

    def _await_quiet(self, admin: redis.Redis) -> None:
        """Wait until every other connection is gone, and no script or pause is left."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(redis.ResponseError):
                admin.execute_command("CLIENT", "UNPAUSE")
                if int(admin.info("clients")["connected_clients"]) == 1:
                    return
            assert time.monotonic() < deadline, admin.execute_command("CLIENT", "LIST")
            time.sleep(0.02)

    def _digest(self, admin: redis.Redis) -> dict[tuple[int, bytes], object]:
        """Say of every key what it holds; those that are to expire may do so meanwhile."""
        found: dict[tuple[int, bytes], object] = {}
        found[-1, b""] = sorted(map(repr, admin.execute_command("FUNCTION", "LIST", "WITHCODE")))
        for database in range(3):
            admin.execute_command("SELECT", database)
            for key in admin.execute_command("KEYS", "*"):
                if admin.execute_command("PTTL", key) == -1:
                    kind = admin.execute_command("TYPE", key)
                    if kind == b"stream":
                        whole = admin.execute_command("XINFO", "STREAM", key, "FULL", "COUNT", "0")
                        found[database, key] = without_times(whole)
                    elif kind in (b"set", b"hash"):
                        read = {b"set": "SMEMBERS", b"hash": "HGETALL"}[kind]
                        found[database, key] = admin.execute_command(read, key)
                    else:
                        found[database, key] = admin.execute_command("DUMP", key)
        return found


UNTOLD = {b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time", b"active", b"inactive"}


def without_times(told: object) -> object:
    """Leave out of XINFO's reply what no effect carries: when a consumer was seen, and how entries lie in nodes."""
    if isinstance(told, dict):
        return {name: without_times(value) for name, value in told.items() if name not in UNTOLD}
    if isinstance(told, list):
        if told and len(told) % 2 == 0 and all(isinstance(name, bytes) for name in told[::2]) and b"name" in told[:1]:
            return without_times(dict(zip(told[::2], told[1::2], strict=True)))
        return [without_times(each) for each in told]
    return told


def run_session(seed: int, directory: Path) -> None:
    session = Session(seed, directory)
    try:
        session.run(STEPS)
    except BaseException as error:
        error.add_note(f"HEADRACE_SEED={seed}\n{session.server.log}")
        raise
    finally:
        session.end()


@pytest.mark.skipif(LONG and SEED is None, reason="the campaign runs instead")
def test_a_session_of_strange_clients_leaves_the_server_well(tmp_path: Path) -> None:
    for seed in range(1) if SEED is None else (SEED,):
        directory = tmp_path / str(seed)
        directory.mkdir()
        run_session(seed, directory)


@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_sessions_of_strange_clients_for_an_hour(tmp_path: Path) -> None:
    until = time.monotonic() + HOUR_S
    seed = time.time_ns() // 1_000_000
    while time.monotonic() < until:
        seed += 1
        directory = tmp_path / str(seed)
        directory.mkdir()
        run_session(seed, directory)
