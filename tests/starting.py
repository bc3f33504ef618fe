"""How a test waits for a server that it has started."""

import socket
import subprocess
import time

import pytest
import redis


def wait_for(process: subprocess.Popen[bytes], client: redis.Redis) -> None:
    """Return once a server that was started answers."""
    port = client.connection_pool.connection_kwargs["port"]
    for _ in range(400):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            time.sleep(0.025)
        else:
            client.ping()
            return
    pytest.fail(f"{process.args!r} does not answer")
