"""Workers of a queue that are killed: eight at a time, until so many were killed, and then on until it is ended.

    killed_workers.py <port> <directory> <kills>

Each worker knows redis-py and nothing of any rule: it reads, notes the number of a message in the file `processed`,
acknowledges it, and notes that in `acknowledged`. A message that is poison kills it. The file `killed` is there when
all kills are over.
"""

import os
import signal
import sys
import time
from pathlib import Path
from random import Random

import redis

WORKERS = 8


def note(path: Path, number: bytes) -> None:
    """Append a line, as a whole, to a file that all workers share."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, number + b"\n")
    os.close(file)


def work(port: int, directory: Path, name: str) -> None:
    """Work until somebody kills this process."""
    client = redis.Redis(port=port)
    while True:
        try:
            for _, entries in client.xreadgroup("workers", name, {"q": ">"}, count=3, block=50) or ():
                for id, message in entries:
                    if b"poison" in message:
                        os.kill(os.getpid(), signal.SIGKILL)
                    note(directory / "processed", message[b"n"])
                    if client.xack("q", "workers", id):
                        note(directory / "acknowledged", message[b"n"])
        except redis.ConnectionError:
            time.sleep(0.02)


def keep_workers(port: int, directory: Path, kills: int) -> None:
    """Have eight workers, and kill them one after the other."""
    chance = Random(7)
    alive: list[int] = []
    started = 0
    while True:
        while len(alive) < WORKERS:
            started += 1
            child = os.fork()
            if child == 0:
                work(port, directory, f"worker-{started}")
            alive.append(child)
        time.sleep(chance.choice((0.005, 0.02, 0.05)))
        if kills:
            kills -= 1
            os.kill(chance.choice(alive), signal.SIGKILL)
            if not kills:
                note(directory / "killed", b"all")
        alive = [each for each in alive if os.waitpid(each, os.WNOHANG) == (0, 0)]


if __name__ == "__main__":
    keep_workers(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
