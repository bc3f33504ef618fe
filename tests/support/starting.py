"""How a test waits for a server that it has started."""

import socket
import subprocess
import time

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
