"""Keyspace events: the same commands cause the same events as in redis-server, in the same order."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from support.campaign import LONG
from support.companion_commands import CompanionCommands
from support.in_process import InProcess
from support.key_commands import KeyCommands
from support.raw_client import RawClient, parse

COMMANDS = 40_000 if LONG else 2_500
EVERYTHING = "KEAnm"

SETTINGS = ["", "K", "KEA", "KEAnm", "gK", "Ex", "KEg$lshzxetd", "tdE", "mK", "nK", "nmKEt", "ggKK", "Ag", "zlsK$h"]


class Listener:
    """A server, and one connection to it that hears every keyspace event."""

    def __init__(self, server: redis.Redis, stack: ExitStack, classes: str = EVERYTHING) -> None:
        server.config_set("notify-keyspace-events", classes)
        self.wire = stack.enter_context(RawClient.of(server, 3))
        self._ear = stack.enter_context(RawClient.of(server))
        self._ear.run("PSUBSCRIBE", "__key*__:*")

    def events(self) -> list[tuple[str, str]]:
        """The events since the last time."""
        self._ear.send_words("PING", "now")
        found: list[tuple[str, str]] = []
        while True:
            message = parse(self._ear.reply())
            assert isinstance(message, list)
            if message[1] == "$pong":
                return found
            found.append((message[3], message[4]))


@pytest.fixture
def both(headrace_server: redis.Redis, redis_server: redis.Redis) -> Iterator[tuple[Listener, Listener]]:
    with ExitStack() as stack:
        yield Listener(headrace_server, stack), Listener(redis_server, stack)
    redis_server.config_set("notify-keyspace-events", "")


def test_settings_are_read_and_shown_as_in_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    for setting in SETTINGS:
        shown = []
        for server in (headrace_server, redis_server):
            server.config_set("notify-keyspace-events", setting)
            shown.append(server.config_get("notify-keyspace-events"))
        assert shown[0] == shown[1], setting
    redis_server.config_set("notify-keyspace-events", "")
    with pytest.raises(redis.ResponseError, match="Invalid event class character"):
        headrace_server.config_set("notify-keyspace-events", "KEy")


def test_random_key_commands_cause_the_events_of_redis(both: tuple[Listener, Listener]) -> None:
    ours, theirs = both
    ours.wire.run("SET", "text", "hello")
    payloads = [parse(ours.wire.run("DUMP", "text"))[1:].encode("latin-1")]
    commands = KeyCommands(7, payloads)
    seen: set[str] = set()
    ours.wire.run("FLUSHALL")
    ours.events()
    for number in range(COMMANDS):
        command = commands.draw()
        sent = [(b"MULTI",), command, (b"EXEC",)] if command[0] in (b"BLPOP", b"BRPOP") else [command]
        for each in sent:
            ours.wire.run(*each)
            theirs.wire.run(*each)
        found, expected = ours.events(), theirs.events()
        assert found == expected, f"command {number}: {command!r}"
        seen |= {text for channel, text in found if "__keyspace@" in channel}
    assert seen >= {
        *("$set", "$expire", "$del", "$persist", "$rename_from", "$rename_to", "$copy_to", "$move_from", "$move_to"),
        *("$restore", "$lpush", "$rpush", "$lpop", "$rpop", "$sadd", "$srem", "$new", "$keymiss"),
    }


def test_random_commands_on_companions_cause_the_events_of_redis(both: tuple[Listener, Listener]) -> None:
    ours, theirs = both
    commands = CompanionCommands(5)
    seen: set[str] = set()
    for number in range(2 * COMMANDS):
        command = commands.valid()
        name = command[0].lower()
        if b"lex" in b" ".join(command).lower() or b"-9223372036854775808" in command:
            continue
        if name in (b"spop", b"srandmember", b"hrandfield", b"zrandmember"):
            command = command[:2] + [b"1000"] * (name == b"spop")
        for each in [[b"MULTI"], command, [b"EXEC"]] if name[:1] == b"b" else [command]:
            ours.wire.run(*each)
            theirs.wire.run(*each)
        found, expected = ours.events(), theirs.events()
        assert found == expected, f"command {number}: {command!r}"
        seen |= {text for channel, text in found if "__keyspace@" in channel}
    assert seen >= {
        *("$set", "$expire", "$del", "$persist", "$incrby", "$incrbyfloat", "$append", "$setrange", "$new", "$keymiss"),
        *("$setbit", "$pfadd", "$lpush", "$rpush", "$lpop", "$rpop", "$linsert", "$lset", "$lrem", "$ltrim"),
        *("$sadd", "$srem", "$spop", "$sinterstore", "$sunionstore", "$sdiffstore"),
        *("$zadd", "$zincr", "$zrem", "$zpopmin", "$zpopmax", "$zremrangebyrank", "$zremrangebyscore"),
        *("$zunionstore", "$zinterstore", "$zdiffstore", "$zrangestore"),
        *("$geosearchstore", "$georadiusstore"),
        *("$hset", "$hdel", "$hincrby", "$hincrbyfloat"),
    }


class StreamCommands:
    """Random commands on two streams that are made and removed all the time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = 1

    def draw(self) -> tuple[str, ...]:
        rng = self._random
        key, group, consumer = rng.choice("st"), rng.choice("gh"), rng.choice("abc")
        entry = f"{rng.randint(1, self._next)}-0"
        self._next += 1
        chosen: tuple[tuple[str, ...], ...] = (
            *((("XADD", key, f"{self._next}-0", "f", "v"),) * 4),
            ("XADD", key, "MAXLEN", "3", f"{self._next}-0", "f", "v"),
            ("XADD", key, "NOMKSTREAM", f"{self._next}-0", "f", "v"),
            ("XADD", key, "1-0", "f", "v"),
            ("XTRIM", key, "MAXLEN", str(rng.randint(0, 4))),
            ("XDEL", key, entry, f"{self._next - 1}-0"),
            ("XSETID", key, f"{self._next}-0"),
            *((("XGROUP", "CREATE", key, group, rng.choice(("0", "$"))),) * 2),
            ("XGROUP", "CREATE", key, group, "0", "MKSTREAM"),
            ("XGROUP", "SETID", key, group, "0"),
            ("XGROUP", "DESTROY", key, group),
            ("XGROUP", "CREATECONSUMER", key, group, consumer),
            ("XGROUP", "DELCONSUMER", key, group, consumer),
            *((("XREADGROUP", "GROUP", group, consumer, "COUNT", "2", "STREAMS", key, ">"),) * 3),
            ("XREADGROUP", "GROUP", group, consumer, "STREAMS", key, "0"),
            ("XREAD", "STREAMS", "s", "t", "0", "0"),
            ("XACK", key, group, entry),
            ("XCLAIM", key, group, consumer, "0", entry),
            ("XAUTOCLAIM", key, group, consumer, "0", "0"),
            ("XPENDING", key, group),
            ("XRANGE", key, "-", "+"),
            ("XLEN", key),
            ("XINFO", "STREAM", key),
            ("XINFO", "GROUPS", key),
            ("XINFO", "CONSUMERS", key, group),
            ("DEL", key),
            ("SET", key, "text") if rng.random() < 0.1 else ("TYPE", key),
        )
        return rng.choice(chosen)


def consumer_of(command: tuple[str, ...]) -> tuple[str, ...]:
    """What 7.0 has to be told about: since 7.2 a consumer is created even if it is given nothing."""
    if command[0] in ("XCLAIM", "XAUTOCLAIM"):
        return ("XGROUP", "CREATECONSUMER", *command[1:4])
    if command[0] == "XREADGROUP":
        return ("XGROUP", "CREATECONSUMER", command[-2], *command[2:4])
    return ()


def test_random_stream_commands_cause_the_events_of_redis(both: tuple[Listener, Listener]) -> None:
    ours, theirs = both
    commands = StreamCommands(3)
    seen: set[str] = set()
    for number in range(COMMANDS):
        command = commands.draw()
        replies = [listener.wire.run(*command) for listener in both]
        if consumer_of(command) and not replies[0].startswith(b"-"):
            theirs.wire.run(*consumer_of(command))
        found, expected = ours.events(), theirs.events()
        assert found == expected, f"command {number}: {command!r}"
        seen |= {text for channel, text in found if "__keyspace@" in channel}
    assert seen >= {
        *("$new", "$keymiss", "$xadd", "$xtrim", "$xdel", "$xsetid", "$xgroup-create", "$xgroup-setid"),
        *("$xgroup-destroy", "$xgroup-createconsumer", "$xgroup-delconsumer", "$del"),
    }


class Ear:
    """An engine, and what a client hears of its keys."""

    def __init__(self, classes: str) -> None:
        self.engine = InProcess()
        self.engine.run("CONFIG", "SET", "notify-keyspace-events", classes)
        self._listener = self.engine.connect()
        self._listener.run("PSUBSCRIBE", "*")

    def after(self, *words: Any) -> list[str]:
        """Run a command; the events that it causes."""
        self.engine.run(*words)
        return self.heard()

    def heard(self) -> list[str]:
        messages = self._listener.reply().split(b"*4\r\n")[1:]
        return [message.split(b"\r\n")[-2].decode() for message in messages]


def test_commands_of_later_versions_have_their_events() -> None:
    ear = Ear("KAnoc")
    assert ear.after("XADD", "s", "1-0", "f", "v") == ["new", "xadd"]
    ear.after("XADD", "s", "2-0", "f", "v")
    ear.after("XADD", "s", "3-0", "f", "v")
    ear.after("XGROUP", "CREATE", "s", "g", "0")
    assert ear.after("XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", "s", ">") == ["xgroup-createconsumer"]
    assert ear.after("XNACK", "s", "g", "FAIL", "IDS", 1, "1-0") == []
    assert ear.after("XACKDEL", "s", "g", "IDS", 1, "1-0") == ["xdel"]
    assert ear.after("XACKDEL", "s", "g", "IDS", 1, "1-0") == []
    assert ear.after("XDELEX", "s", "ACKED", "IDS", 1, "2-0") == []
    assert ear.after("XDELEX", "s", "DELREF", "IDS", 1, "2-0") == ["xdel"]
    assert ear.after("XCFGSET", "s", "IDMP-MAXSIZE", 5) == []
    assert ear.after("XADD", "s", "IDMP", "p", "1", "*", "f", "v") == ["xadd"]
    assert ear.after("XADD", "s", "IDMP", "p", "1", "*", "f", "v") == []
    assert ear.after("XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", "0") == ["xgroup-createconsumer"]


def test_a_value_in_the_place_of_another_is_told() -> None:
    ear = Ear("KAnoc")
    assert ear.after("SET", "k", "v") == ["new", "set"]
    assert ear.after("SET", "k", "w", "EX", 100) == ["overwritten", "set", "expire"]
    ear.after("RPUSH", "l", "x")
    assert ear.after("SET", "l", "v") == ["overwritten", "type_changed", "set"]
    ear.after("SADD", "s", "x")
    assert ear.after("RENAME", "s", "l") == ["new", "rename_from", "rename_to", "overwritten", "type_changed"]
    assert ear.after("COPY", "k", "l", "REPLACE") == ["new", "copy_to", "overwritten", "type_changed"]
    assert ear.after("COPY", "k", "l", "REPLACE") == ["new", "copy_to", "overwritten"]


def test_expiry_is_told_when_it_is_noticed_and_when_it_is_not() -> None:
    ear = Ear("KEA")
    ear.engine.set_clock(1_000_000)
    ear.after("SET", "k", "v", "PX", 100)
    ear.after("SET", "l", "v", "PX", 100)
    ear.engine.set_clock(1_001_000)
    assert ear.after("GET", "k") == ["expired", "k"]
    ear.engine.engine.tick()
    assert ear.heard() == ["expired", "l"]


def test_without_a_channel_nothing_is_published() -> None:
    ear = Ear("A")
    assert ear.after("SET", "k", "v") == []


def test_events_of_a_transaction_follow_its_reply() -> None:
    engine = InProcess()
    engine.run("CONFIG", "SET", "notify-keyspace-events", "K$")
    engine.run("HELLO", 3)
    engine.run("SUBSCRIBE", "__keyspace@0__:k")
    engine.run("MULTI")
    engine.run("SET", "k", "v")
    engine.run("PING")
    assert engine.run("EXEC").startswith(b"*2\r\n+OK\r\n+PONG\r\n>3\r\n$7\r\nmessage\r\n")
