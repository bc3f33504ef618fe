"""Effects: what the engine does by itself when time has passed, and which commands may be one.

An effect changes data, so that it is a command that writes. Everything else that Redis itself has ever put into an
append-only file is listed here. Whatever else is found in one, such as CONFIG SET or SHUTDOWN, no server wrote.
"""

from typing import Final

BESIDE_WRITES: Final = frozenset(
    {
        *(b"select", b"multi", b"exec"),
        b"pfcount",  # keeps the number that it computed
        *(b"eval", b"evalsha", b"script|load", b"script|flush"),  # before Redis 7, scripts were repeated as they came
        *(b"ping", b"replconf", b"publish", b"spublish"),  # what else a master sends to its replicas
    }
)


def deletion(key: bytes) -> list[bytes]:
    """Return the effect that a key is gone."""
    return [b"DEL", key]


def forgetting(key: bytes, forgotten: list[tuple[bytes, int]]) -> list[bytes]:
    """Return the effect that producers are no longer known to have sent so many of their oldest messages."""
    return [
        *(b"HEADRACE", b"IDMPFORGET", key),
        *(word for producer, count in forgotten for word in (producer, b"%d" % count)),
    ]
