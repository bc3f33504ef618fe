"""Streams with everything that a stream may have, and pictures of them to compare."""

import redis

FIRST_MS = 1_763_200_000_000  # 2025-11-15, 09:46:40 UTC
LAST_ID = "18446744073709551615-5"


def fill(server: redis.Redis, entries: int = 200) -> None:
    """Add streams with names, fields and values that are no text, repeated fields, and the greatest of IDs."""
    with server.pipeline(transaction=False) as pipeline:
        for number in range(entries):
            fields = {"n": number, "v": bytes([number % 256]) * (number % 7), b"\xff\x00": b"\r\n"}
            pipeline.xadd("plain", fields, id=f"{FIRST_MS + number * 1000}-{number % 3}")
            pipeline.xadd("a,b*[x]\\", {"n": number}, id=f"{FIRST_MS + number * 3_600_000}-0")
        pipeline.execute_command("XADD", b"k\xff:/", "5-1", "a", "1", b"\xff\x00", b"\x00\xff", "a", "2")
        pipeline.execute_command("XADD", b"", LAST_ID, "", "")
        pipeline.execute_command("XADD", b" long " + b"x" * 300 + b" ", "7-18446744073709551615", "n", "1")
        pipeline.execute()


def picture(server: redis.Redis) -> dict[bytes, bytes]:
    """Return every stream, byte for byte."""
    return {key: server.dump(key) for key in server.scan_iter("*", _type="STREAM")}
