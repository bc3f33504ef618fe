"""Servers that tests start: how to wait for one, and a client that ends with it."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from support.patience import PATIENCE_S


def wait_for(process: subprocess.Popen[bytes], client: redis.Redis) -> None:
    """Return once a server that was started answers."""
    port = client.connection_pool.connection_kwargs["port"]
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            time.sleep(0.025)
        else:
            client.ping()
            return
    pytest.fail(f"{process.args!r} does not answer")


@contextmanager
def client_of(process: subprocess.Popen[bytes], port: int) -> Iterator[redis.Redis]:
    """A client of a server that was just started, once it answers; the server ends with it."""
    client = redis.Redis(port=port, protocol=2)
    try:
        wait_for(process, client)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait(10)
