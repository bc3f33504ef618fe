"""Ports for the servers that tests start.

10,000 … 19,999      given here, each once; each process begins at another number
20,000 … 29,999      the buses of cluster nodes, which are 10,000 above their ports
32,768 …             the kernel's, for connections that go out: one could take a port before its server does
"""

import os
import socket
from itertools import cycle, islice

FIRST, COUNT = 10_000, 10_000
_ports = islice(cycle(range(FIRST, FIRST + COUNT)), os.getpid() * 997 % COUNT, None)


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    for port in islice(_ports, COUNT):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("every port is taken")
