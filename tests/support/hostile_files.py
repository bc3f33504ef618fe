"""Files with a right checksum and wrong content, loaded in a process of its own.

    python hostile_files.py KIND FIRST COUNT DIRECTORY      prints each seed before it is tried

The process must end by itself. A memory fault, an endless loop (an alarm ends the process), memory that grows without
limit, and any error that is not a sentence for a person are failures.
"""

import resource
import signal
import struct
import sys
from pathlib import Path
from random import Random
from typing import Final

from headrace.commands.all import make_engine
from headrace.core.errors import HeadraceError
from headrace.engine.configuration.config import Config
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.engine import Engine
from headrace.formats.aof import encode
from headrace.formats.aof_seal import seal
from headrace.formats.crc64 import crc64
from headrace.formats.dump import seal as seal_payload
from headrace.server import redis_conf
from headrace.storage.disk import Disk
from headrace.storage.manifest import parse
from headrace.storage.reading import read_data
from support.in_process import Nowhere
from support.rdb_samples import Key, busy_stream, sample_keys, written
from support.steps import finish
from support.storage.operator_log import OperatorLog

GOLDEN: Final = Path(__file__).parent.parent / "golden"
ADDRESS_SPACE: Final = 2 << 30
PATIENCE_S: Final = 60
EDGES: Final = (0, 1, 2, 0x0B, 0x0E, 0x13, 0x15, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xC0, 0xC3, 0xF0, 0xF4, 0xFE, 0xFF)
READS: Final = {
    b"string": ("GET k", "STRLEN k", "GETRANGE k 0 -1"),
    b"list": ("LRANGE k 0 -1", "LLEN k", "LINDEX k -1"),
    b"set": ("SMEMBERS k", "SCARD k"),
    b"zset": ("ZRANGE k 0 -1 WITHSCORES", "ZRANGEBYSCORE k -inf +inf", "ZREVRANGEBYLEX k + -"),
    b"hash": ("HGETALL k", "HLEN k"),
    b"stream": (
        *("XLEN k", "XRANGE k - +", "XREVRANGE k + -", "XRANGE k (5 100 COUNT 7", "XINFO STREAM k", "XINFO GROUPS k"),
        *("XINFO STREAM k FULL COUNT 0", "HEADRACE NODES k - + COUNT 1000000", "HEADRACE SPLITS k - + 5"),
        *("XPENDING k g", "XPENDING k g - + 1000", "XINFO CONSUMERS k g", "XREAD STREAMS k 0"),
    ),
}
ANY_TYPE: Final = ("DUMP k", "OBJECT ENCODING k", "MEMORY USAGE k", "TTL k")
CHANGES: Final = {
    b"stream": (
        *("XREADGROUP GROUP g new STREAMS k >", "XAUTOCLAIM k g new 0 0 COUNT 1000", "XACK k g 1-0 2-0 3-0 40-0"),
        *("XADD k * f v", "XDEL k 3-0 5-0 299-0", "XTRIM k MAXLEN 10", "XTRIM k MAXLEN 0", "XADD k * f v", "DEL k"),
    ),
    b"list": ("RPOP k", "LPUSH k x", "LREM k 0 x"),
    b"set": ("SADD k new", "SPOP k"),
    b"zset": ("ZADD k 1 new", "ZPOPMIN k"),
    b"hash": ("HSET k new 1", "HDEL k a"),
    b"string": ("APPEND k x",),
}


# --- mutation --------------------------------------------------------------------------------------------------


def mutate(random: Random, data: bytes) -> bytes:
    """Change some bytes: to edges of formats, by bits, by cutting, doubling, or moving a piece."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at = random.randrange(len(changed))
        match random.randrange(8):
            case 0 | 1 | 2:
                changed[at] = random.choice(EDGES)
            case 3 | 4:
                changed[at] ^= 1 << random.randrange(8)
            case 5:
                size = random.choice((1, 2, 8, 100))
                del changed[at : at + size]
            case 6:
                changed[at:at] = changed[at : at + random.choice((1, 4, 30))]
            case _:
                number = random.choice((0xFF, 0xFFFF, 0xFFFFFFFF, 2**31, 2**63, 2**64 - 1))
                width = random.choice("BHIQ")
                packed = struct.pack("<Q", number)[: struct.calcsize(width)]
                changed[at : at + len(packed)] = packed
        if not changed:
            return b"x"
    return bytes(changed)


def small_keys() -> list[Key]:
    """Every type, in values of which a change of some bytes is likely to meet something that matters."""
    return [key for key in sample_keys() if key.name not in (b"large", b"long list", b"compressible")]


def snapshots() -> list[bytes]:
    keys = small_keys()
    own = written(keys, compress=False, aux={b"headrace-ver": b"1"})
    squeezed = written(keys, compress=True, aux={b"headrace-ver": b"1"})
    recorded = [path.read_bytes() for path in sorted(GOLDEN.glob("*-dump.rdb"))]
    return [own, squeezed, *recorded]


def with_checksum(body: bytes) -> bytes:
    return body + struct.pack("<Q", crc64(body))


HISTORY: Final = [
    ["SELECT 0", "XADD k 1-1 a b", "XADD k 2-1 a b", "XGROUP CREATE k g 0", "XCLAIM k g c 0 1-1 TIME 5 FORCE JUSTID"],
    ["SET t 5", "INCR t", "RPUSH l a b c", "HSET h a 1", "SADD s 1 2 x", "ZADD z 1 a 2 b", "PEXPIREAT t 4000000000000"],
    ["MULTI", "XSETID k 9-9 ENTRIESADDED 20 MAXDELETEDID 1-1", "XTRIM k MAXLEN = 1", "EXEC", "XGROUP SETID k g 5"],
]


def append_file(random: Random) -> bytes:
    groups = []
    for lines in HISTORY:
        commands = [[word.encode() for word in line.split()] for line in lines]
        for command in commands:
            if random.random() < 0.3:
                at = random.randrange(len(command))
                command[at] = mutate(random, command[at])
        data = b"".join(map(encode, commands))
        if random.random() < 0.3:
            data = mutate(random, data)
        groups.append(seal(data) + data)
    random.shuffle(groups)
    return b"".join(groups)


# --- trying ----------------------------------------------------------------------------------------------------


class Victim:
    """Where a file is loaded, and then asked for everything."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = Disk()
        self.snapshots = snapshots()

    def try_snapshot(self, random: Random) -> None:
        data = random.choice(self.snapshots)
        self._load("dump.rdb", with_checksum(data[:9] + mutate(random, data[9:-8])))

    def try_append_file(self, random: Random) -> None:
        self._load("appendonly.aof", append_file(random))

    def try_payload(self, random: Random) -> None:
        engine = make_engine(Config())
        client = engine.connect(Nowhere())
        value = busy_stream() if random.randrange(2) else random.choice(small_keys()).value
        engine.keyspace.load(0, b"k", value, None, None)
        engine.execute(client, [b"DUMP", b"k"])
        payload = b"".join(client.reply.take()).partition(b"\r\n")[2][:-2]
        version = int.from_bytes(payload[-10:-8], "little")
        engine.execute(client, [b"RESTORE", b"copy", b"0", seal_payload(mutate(random, payload[:-10]), version)])
        client.reply.take()
        self._ask(engine)

    def try_manifest(self, random: Random) -> None:
        text = b"file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
        try:
            parse(mutate(random, text))
        except HeadraceError:
            return

    def try_acl_file(self, random: Random) -> None:
        text = b"user default on nopass ~* &* +@all\nuser a on >x #%s ~a* %%R~b &c -@all +get (+set ~d)\n"
        text %= b"a1" * 32
        path = self._directory / "users.acl"
        path.write_bytes(mutate(random, text))
        engine = make_engine(Config())
        try:
            engine.users.load_file(str(path))
        except HeadraceError:
            return
        client = engine.connect(Nowhere())
        for line in ("ACL LIST", "ACL GETUSER a", "ACL DRYRUN a GET abc"):
            engine.execute(client, [word.encode() for word in line.split()])

    def try_configuration(self, random: Random) -> None:
        text = b'port 7000\nbind 127.0.0.1 ::1\nsave 60 1000\nmaxmemory 10gb\nrequirepass "a b\\x41"\nuser a on ~*\n'
        path = self._directory / "redis.conf"
        path.write_bytes(mutate(random, text))
        try:
            redis_conf.load(Config(), [str(path)])
        except (HeadraceError, SettingRefused):
            return

    def _load(self, name: str, data: bytes) -> None:
        path = self._directory / name
        path.write_bytes(data)
        try:
            engine, _ = finish(read_data(path, OperatorLog(), self._disk))
        except HeadraceError:
            return
        self._ask(engine)

    def _ask(self, engine: Engine) -> None:
        """Run every command that reads on every key, and then some that write."""
        client = engine.connect(Nowhere())
        engine.hooks.failure = report_bug
        for db in engine.databases:
            client.db = db
            for key in list(db.values):
                engine.execute(client, [b"TYPE", key])
                kind = b"".join(client.reply.take())[1:-2]
                for line in (*READS.get(kind, ()), *ANY_TYPE, *CHANGES.get(kind, ())):
                    words = [word.encode() for word in line.split()]
                    engine.execute(client, [words[0], *(key if word == b"k" else word for word in words[1:])])
                    client.reply.take()
                    engine.waiting.leave(client)


def report_bug(name: bytes, bug: Exception) -> None:
    raise AssertionError(f"{name.decode()} failed: {bug!r}") from bug


def main() -> None:
    kind, first, count, directory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    victim = Victim(directory)
    attack = getattr(victim, f"try_{kind}")
    for seed in range(first, first + count):
        print(seed, flush=True)
        signal.alarm(PATIENCE_S)
        attack(Random(seed))
    print("done", flush=True)


if __name__ == "__main__":
    main()
