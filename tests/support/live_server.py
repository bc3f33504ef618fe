"""A live redis-server, asked in plain command lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from support.history import Command
from support.stream_face import NO_GROUP, Refusal

REASONS = {
    "equal or smaller than the target stream top item": "StreamIDTooSmall",
    "must be greater than 0-0": "StreamIDTooSmall",
    # What 7.0.15 says of `ms-*` after ms-18446744073709551615; no element of a history is really that large.
    "Elements are too large to be stored": "StreamIDTooSmall",
    "exhausted the last possible ID": "StreamExhausted",
    "Consumer Group name already exists": "GroupExists",
    "The ID specified in XSETID is smaller": "InvalidStreamState",
    "The entries_added specified in XSETID is smaller": "InvalidStreamState",
    "No such consumer group": NO_GROUP.reason,
    "No such key": NO_GROUP.reason,
}


class Server:
    """A redis-server without redis-py's interpretation: command lines in, plain RESP2 replies out."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._connection = self._pool.get_connection()

    def __call__(self, *command: bytes) -> Any:
        self._connection.send_command(*command)
        return self._connection.read_response()

    def execute(self, command: Command) -> Any:
        """Send a command of a history; a refusal is a reply."""
        try:
            return self(*command)
        except redis.ResponseError as error:
            for text, reason in REASONS.items():
                if text in str(error):
                    return Refusal(reason)
            raise

    def close(self) -> None:
        self._pool.release(self._connection)


@contextmanager
def checking_every_byte(client: redis.Redis) -> Iterator[Server]:
    """Let the server look at every byte that it is given to restore."""
    client.config_set("sanitize-dump-payload", "yes")
    server = Server(client)
    try:
        yield server
    finally:
        server.close()
        client.config_set("sanitize-dump-payload", "no")
