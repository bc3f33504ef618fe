"""Publish and subscribe: which clients listen to what, and how a message finds them.

    kind      listens to                          hears
    CHANNEL   a channel                           message  channel text
    PATTERN   every channel that a glob matches   pmessage pattern channel text
    SHARD     a channel of a shard's own          smessage channel text

The clients of a channel hear a message first, in the order in which they came; then those of patterns, likewise. A
message is encoded once for each protocol that clients use. Nothing is kept: a client that does not listen misses it.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from headrace.engine.client import Client
from headrace.engine.glob import Matcher, matcher


class Kind(IntEnum):
    """What a subscription names; the number is its place in `Client.subscriptions`."""

    CHANNEL = 0
    PATTERN = 1
    SHARD = 2


Listeners = dict[Client, None]
Push = Callable[[Client, bytes], object]

_MARKS: Final = {2: b"*", 3: b">"}


def encode(protocol: int, *words: bytes) -> bytes:
    """Write a message of these words as a client of a protocol reads it."""
    return b"%s%d\r\n%s" % (
        _MARKS[protocol],
        len(words),
        b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words),
    )


class Exchange:
    """All subscriptions. `push` sends a client what answers no request, in the order of its replies."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self.listeners: tuple[dict[bytes, Listeners], ...] = tuple({} for _ in Kind)
        self._matchers: dict[bytes, Matcher] = {}

    # --- subscribing -----------------------------------------------------------------------------------------------

    def subscribe(self, client: Client, kind: Kind, name: bytes) -> None:
        """Let a client hear what a name stands for; once is enough."""
        if client.subscriptions is None:
            client.subscriptions = tuple({} for _ in Kind)
        client.subscriptions[kind][name] = None
        self.listeners[kind].setdefault(name, {})[client] = None
        if kind is Kind.PATTERN:
            # For KEYS one star matches everything; here, as every other glob, it does not match the empty text.
            self._matchers[name] = matcher(name) if name != b"*" else bool
        client.subscribed = True
        client.update_guard()

    def unsubscribe(self, client: Client, kind: Kind, name: bytes) -> None:
        """Let a client no longer hear it; nothing happens where it did not."""
        held = held_by(client, kind)
        if name not in held:
            return
        del held[name]
        listeners = self.listeners[kind][name]
        del listeners[client]
        if not listeners:
            del self.listeners[kind][name]
            if kind is Kind.PATTERN:
                del self._matchers[name]
        client.subscribed = any(client.subscriptions or ())
        client.update_guard()

    def leave(self, client: Client) -> None:
        """End everything that a client listens to."""
        for kind in Kind:
            for name in list(held_by(client, kind)):
                self.unsubscribe(client, kind, name)

    # --- publishing ------------------------------------------------------------------------------------------------

    def publish(self, channel: bytes, text: bytes) -> int:
        """Send a message to clients that listen to a channel or a matching pattern; return how often it was sent."""
        sent = self._send(self.listeners[Kind.CHANNEL].get(channel), b"message", channel, text)
        for pattern, matches in self._matchers.items():
            if matches(channel):
                sent += self._send(self.listeners[Kind.PATTERN][pattern], b"pmessage", pattern, channel, text)
        return sent

    def publish_to_shard(self, channel: bytes, text: bytes) -> int:
        """Send a message to all clients that listen to a channel of the shard."""
        return self._send(self.listeners[Kind.SHARD].get(channel), b"smessage", channel, text)

    def _send(self, listeners: Listeners | None, *words: bytes) -> int:
        if not listeners:
            return 0
        encoded: dict[int, bytes] = {}
        for client in listeners:
            protocol = client.reply.protocol
            if protocol not in encoded:
                encoded[protocol] = encode(protocol, *words)
            self._push(client, encoded[protocol])
        return len(listeners)

    # --- looking ---------------------------------------------------------------------------------------------------

    def listening(self, kind: Kind, name: bytes) -> int:
        """Count the clients that subscribed to a name."""
        return len(self.listeners[kind].get(name, ()))


def held_by(client: Client, kind: Kind) -> dict[bytes, None]:
    """Return the names of a kind that a client subscribed to."""
    return client.subscriptions[kind] if client.subscriptions is not None else {}
