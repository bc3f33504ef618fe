"""Broken pipelines: real commands, mutilated, over many connections. The server answers its other clients throughout.

`HEADRACE_SEED=n` replays a campaign's mutations, though not their timing.
"""

import random
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.campaign import LONG, SEED
from support.raw_client import encode
from support.server_process import ServerProcess

SECONDS = 600 if LONG else 10
LEAST = 20_000 if LONG else 1_000

COMMANDS = [
    "XADD s * dev 3 temp 26",
    "XADD s MAXLEN ~ 100 * a 1",
    "XADD s NOMKSTREAM 0-* a 1",
    "XADD s IDMP p 1 * a 1",
    "XLEN s",
    "XRANGE s - + COUNT 10",
    "XREVRANGE s + (5-0",
    "XREAD COUNT 5 BLOCK 1 STREAMS s t $ 0",
    "XGROUP CREATE s g $ MKSTREAM",
    "XGROUP DESTROY s g",
    "XREADGROUP GROUP g c COUNT 5 BLOCK 1 CLAIM 0 STREAMS s >",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XACK s g 1-0 2-0",
    "XACKDEL s g ACKED IDS 1 1-0",
    "XNACK s g FAIL IDS 1 1-0 FORCE",
    "XPENDING s g IDLE 0 - + 10 c",
    "XCLAIM s g d 0 1-0 2-0 FORCE JUSTID",
    "XAUTOCLAIM s g d 0 0 COUNT 5",
    "XTRIM s MINID = 5-0 DELREF",
    "XDELEX s DELREF IDS 2 1-0 2-0",
    "XINFO STREAM s FULL",
    "XINFO GROUPS s",
    "XSETID s 9999999999999-0",
    "XCFGSET s IDMP-DURATION 5",
    "MULTI",
    "EXEC",
    "WATCH s",
    "DISCARD",
    "SELECT 3",
    "HELLO 3",
    "HELLO 2",
    "CLIENT LIST",
    "CLIENT REPLY SKIP",
    "CONFIG GET *",
    "COMMAND DOCS xadd",
    "INFO everything",
    "DUMP s",
    "COPY s t REPLACE",
    "RENAME s t",
    "EXPIRE t 1",
    "SCAN 0 TYPE stream",
    "OBJECT ENCODING s",
    "MEMORY USAGE s",
    "SET k v EX 10",
    "GET k",
    "LPUSH l a b",
    "BLPOP l 0.001",
    "SADD z a",
    "DEL s",
    "FLUSHALL",
    "RESET",
]


def mutated(dice: random.Random) -> bytes:
    """A pipeline with one or several mutilations, or none."""
    parts = [encode([word.encode() for word in dice.choice(COMMANDS).split()]) for _ in range(dice.randint(1, 12))]
    data = bytearray(b"".join(parts))
    for _ in range(dice.choice([0, 1, 1, 2, 5])):
        at = dice.randrange(len(data))
        match dice.randrange(6):
            case 0:
                data[at] ^= 1 << dice.randrange(8)
            case 1:
                del data[at : at + dice.randint(1, 20)]
            case 2:
                data[at:at] = dice.randbytes(dice.randint(1, 20))
            case 3:
                data[at:at] = data[max(0, at - 30) : at]
            case 4:
                data[at:at] = dice.choice([b"*-1\r\n", b"*9999999\r\n", b"$536870912\r\n", b"\r\n", b'"a', b"$-5\r\n"])
            case _:
                del data[at:]
        if not data:
            return b"\r\n"
    return bytes(data)


def attack(port: int, dice: random.Random) -> None:
    """One connection: send mutilated pipelines in pieces, read what comes, leave without a word."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as peer:
        for _ in range(dice.randint(1, 4)):
            data = mutated(dice)
            cut = dice.randrange(len(data) + 1)
            for piece in (data[:cut], data[cut:]):
                peer.sendall(piece)
            peer.setblocking(False)
            with suppress(BlockingIOError):
                while peer.recv(1 << 16):
                    pass
            peer.settimeout(2)


@pytest.mark.timeout(SECONDS + 120)
def test_mutilated_pipelines_break_nothing(tmp_path: Path) -> None:
    seed = SEED if SEED is not None else random.SystemRandom().randrange(2**32) if LONG else 1
    dice = random.Random(seed)
    attacked = settled = 0
    with ServerProcess(tmp_path, "--proto-max-bulk-len", "1mb") as server:
        bystander = server.client()
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            attack(server.port, dice)
            attacked += 1
            if attacked % 100 == 0:
                assert bystander.ping(), f"seed {seed}: the bystander is not answered"
            if attacked == LEAST // 2:
                bystander.flushall()
                settled = server.resident_bytes()
        bystander.flushall()
        grown = server.resident_bytes() - settled
        failures = server.log.count("please report this")
    print(f"{attacked} connections, {grown / 2**20:.1f} MiB grown since the {LEAST // 2}th (seed {seed})")
    assert failures == 0, f"seed {seed}: {failures} commands failed inside:\n{server.log[-3000:]}"
    assert attacked >= LEAST, f"seed {seed}: only {attacked} connections in {SECONDS} s"
    assert grown < 64 * 2**20, f"seed {seed}: the server grew by {grown} bytes"
