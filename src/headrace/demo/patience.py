"""Clients that survive a restart of the server: requests without an answer are sent again when it is back."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as NotAnswered
from redis.retry import Retry

GONE: Final = (NotConnected, NotAnswered)  # a server that is still loading is not connected, either

_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 60.0

_T = TypeVar("_T")


def connect(port: int) -> Redis:
    """Return a client that fails at once when the server is gone."""
    return Redis(port=port, protocol=2, decode_responses=True, socket_timeout=20, retry=Retry(NoBackoff(), 0))


def retry(call: Callable[[], _T]) -> _T:
    """Call until a server answers. Only for what may be repeated: reads, and writes that the server recognises."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return call()
        except GONE:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
