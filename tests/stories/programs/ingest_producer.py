"""A producer that is told what to send, and ends when all of it is acknowledged.

    python ingest_producer.py port key first count            IDs by the server, each number once (IDMP), in bursts
    python ingest_producer.py port key first count first_id   IDs of its own, at once, as a backfill has them

While the server is away it tries again, with the same number.
"""

import sys
import time

import redis

BURST = 20


def main(port: int, key: str, first: int, count: int, first_id: int | None = None) -> None:
    """Send the numbers."""
    client = redis.Redis(port=port)
    for number in range(first, first + count):
        while True:
            try:
                if first_id is None:
                    client.execute_command("XADD", key, "IDMP", "ingest", number, "*", "n", number)
                else:
                    client.xadd(key, {"n": number}, id=f"{first_id + number - first}-0")
                break
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.1)
        if first_id is None and (number - first) % BURST == BURST - 1:
            time.sleep(0.3)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
