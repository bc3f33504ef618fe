"""Publish and subscribe: the same conversations with Headrace and redis-server, to the byte; and the engine's order."""

import random
from itertools import groupby

import pytest
import redis

from support.in_process import InProcess
from support.raw_client import RawClient

NAMES = ["a", "b", "ab", "", "c\r\nd"]
PATTERNS = ["*", "a*", "?", "[ab]", "nothing", "**"]


class Conversation:
    """Several connections to each of two servers, which get the same requests and have to answer the same."""

    def __init__(self, ours: redis.Redis, theirs: redis.Redis, protocol: int) -> None:
        self.pairs = [(RawClient.of(ours, protocol), RawClient.of(theirs, protocol)) for _ in range(4)]

    def say(self, who: int, *words: str) -> None:
        """Send a request; what comes back is read by `hear`."""
        for wire in self.pairs[who]:
            wire.send_words(*words)
        self.settle()

    def settle(self) -> None:
        """Wait until both servers have done all: a connection that nobody talks to asks for an echo."""
        for wire in self.pairs[-1]:
            wire.run("ECHO", "x")

    def hear(self) -> None:
        """Compare all that every connection has received; the order of patterns is a matter of Redis's hashes."""
        for ours, theirs in self.pairs[:-1]:
            ends = []
            for wire in (ours, theirs):
                wire.send_words("PING", "the-end")
                received = [wire.reply()]
                while b"the-end" not in received[-1]:
                    received.append(wire.reply())
                runs = groupby(received, lambda each: b"pmessage" in each)
                ends.append([each for matched, run in runs for each in (sorted(run) if matched else run)])
            assert ends[0] == ends[1]

    def close(self) -> None:
        for pair in self.pairs:
            for wire in pair:
                wire.__exit__()


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_random_conversations_are_those_of_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int, seed: int
) -> None:
    rng = random.Random(seed)
    talk = Conversation(headrace_server, redis_server, protocol)

    def request() -> list[str]:
        names = rng.sample(NAMES, rng.randint(1, 3))
        patterns = rng.sample(PATTERNS, 1)
        return rng.choice(
            [
                ["SUBSCRIBE", *names],
                ["PSUBSCRIBE", *patterns],
                ["SSUBSCRIBE", *names],
                ["UNSUBSCRIBE", *rng.choice([names, names[:1]])],
                ["PUNSUBSCRIBE", *patterns],
                ["SUNSUBSCRIBE", *names],
                ["PING"],
                ["PING", "x"],
                ["PING", "x", "y"],
                ["GET", "key"],
                ["SUBSCRIBE"],
                ["RESET"] if protocol == 2 and rng.random() < 0.2 else ["PING"],
            ]
        )

    def publication() -> list[str]:
        return rng.choice(
            [
                ["PUBLISH", rng.choice(NAMES), "text"],
                ["SPUBLISH", rng.choice(NAMES), "text"],
                ["PUBLISH", "a"],
                ["PUBSUB", "NUMSUB", *NAMES],
                ["PUBSUB", "SHARDNUMSUB", *NAMES],
                ["PUBSUB", "NUMSUB"],
                ["PUBSUB", "NUMPAT"],
                ["PUBSUB", "NUMPAT", "x"],
                ["PUBSUB", "CHANNELS", "nothing"],
                ["PUBSUB", "NOSUCH"],
            ]
        )

    try:
        for _ in range(60):
            # The third only publishes: subscribers may not in RESP2, and in RESP3 7.0 sends messages before the reply.
            talk.say(2, *publication())
            talk.say(rng.choice([0, 1]), *request())
        talk.hear()
    finally:
        talk.close()


def test_channels_are_listed_by_pattern() -> None:
    engine = InProcess()
    listener = engine.connect()
    listener.run("SUBSCRIBE", "news.de", "news.fr", "other")
    assert sorted(engine.run("PUBSUB", "CHANNELS", "news.*").split()[2::2]) == [b"news.de", b"news.fr"]
    assert engine.run("PUBSUB", "CHANNELS").startswith(b"*3\r\n")
    listener.run("UNSUBSCRIBE")
    assert engine.run("PUBSUB", "CHANNELS") == b"*0\r\n"


def test_unsubscribing_from_everything_names_each_channel_once() -> None:
    engine = InProcess()
    engine.run("SUBSCRIBE", "a", "b")
    engine.run("PSUBSCRIBE", "p*")
    assert engine.run("UNSUBSCRIBE") == (
        b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:2\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:1\r\n"
    )
    assert engine.run("GET", "k").startswith(b"-ERR Can't execute 'get': only (P|S)SUBSCRIBE")
    engine.run("PUNSUBSCRIBE")
    assert engine.run("GET", "k") == b"$-1\r\n"


def test_a_message_to_oneself_follows_the_reply() -> None:
    engine = InProcess()
    engine.run("HELLO", "3")
    engine.run("SUBSCRIBE", "c")
    message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"
    assert engine.run("PUBLISH", "c", "x") == b":1\r\n" + message
    engine.run("MULTI")
    engine.run("PUBLISH", "c", "x")
    engine.run("PING")
    assert engine.run("EXEC") == b"*2\r\n:1\r\n+PONG\r\n" + message


def test_messages_come_where_replies_are_not_wanted() -> None:
    engine = InProcess()
    listener = engine.connect()
    listener.run("CLIENT", "REPLY", "OFF")
    assert listener.run("SUBSCRIBE", "c") == b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    engine.run("PUBLISH", "c", "x")
    assert listener.reply() == b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"


def test_who_leaves_hears_no_more() -> None:
    engine = InProcess()
    listener = engine.connect()
    for words in (["SUBSCRIBE", "c"], ["PSUBSCRIBE", "*"], ["SSUBSCRIBE", "c"]):
        listener.run(*words)
    assert engine.run("PUBLISH", "c", "x") == b":2\r\n"
    assert engine.run("SPUBLISH", "c", "x") == b":1\r\n"
    engine.engine.disconnect(listener.client)
    for words in (["PUBLISH", "c", "x"], ["SPUBLISH", "c", "x"], ["PUBSUB", "NUMPAT"]):
        assert engine.run(*words) == b":0\r\n"
    assert all(not names for names in engine.engine.exchange.listeners)


def test_a_blocked_reader_hears_messages_before_it_is_served() -> None:
    engine = InProcess()
    reader = engine.connect()
    reader.run("HELLO", "3")
    reader.run("SUBSCRIBE", "c")
    reader.run("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    engine.run("PUBLISH", "c", "x")
    engine.run("XADD", "s", "1-1", "f", "v")
    assert reader.reply().startswith(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n%1\r\n$1\r\ns\r\n")


def test_subscriptions_are_counted() -> None:
    engine = InProcess()
    listener = engine.connect()
    listener.run("SUBSCRIBE", "a", "b")
    listener.run("PSUBSCRIBE", "p*")
    listener.run("SSUBSCRIBE", "s", "t", "u")
    shown = engine.run("CLIENT", "LIST", "TYPE", "pubsub")
    assert b" flags=P " in shown
    assert b" sub=2 psub=1 ssub=3 " in shown
    assert shown.count(b"id=") == 1
    assert engine.run("CLIENT", "LIST", "TYPE", "normal").count(b"id=") == 1
    info = engine.run("INFO", "stats", "clients")
    for line in (b"pubsub_channels:2", b"pubsub_patterns:1", b"pubsubshard_channels:3", b"pubsub_clients:1"):
        assert line + b"\r\n" in info
    assert engine.run("CLIENT", "KILL", "TYPE", "pubsub") == b":1\r\n"
    assert engine.run("PUBSUB", "NUMPAT") == b":0\r\n"
