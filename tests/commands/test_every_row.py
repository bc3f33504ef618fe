"""Every command and every option of docs/compatibility.md, sent to a live server: none is unknown, none is refused."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.commands.all import TABLE
from headrace.commands.declaration.syntax import Argument, arguments_of
from headrace.commands.documentation.compatibility import options_of
from headrace.commands.documentation.option_history import NOT_HERE, NOT_HERE_LATER, OPTIONS_NOT_HERE, ROWS_REFUSED
from headrace.engine.command import Command
from support.raw_client import RawClient
from support.redis_py_commands import sent_by_redis_py
from support.server_process import ServerProcess

EVERY = {
    each.name.decode(): each
    for command in TABLE.values()
    for each in (command, *command.subcommands.values())
    if each.handler is not None
}
UNFIT = (
    b"unknown",
    b"not supported",
    b"unsupported",
    b"not implemented",
    b"syntax error",
    b"wrong number of arguments",
)

# What stands for a value in a request, by its name in the syntax; by command, where a name means several things.
VALUES = {
    "arg": "a",
    "argument": "a",
    "arguments": "a",
    "bits": "8",
    "category": "read",
    "channel": "channel",
    "client-id": "0",
    "command": "get",
    "command-name": "get",
    "connection-name": "name",
    "clientname": "name",
    "consumer": "consumer",
    "cursor": "0",
    "db": "1",
    "destination": "{k}other",
    "destkey": "{k}other",
    "destination-db": "1",
    "encoding": "u8",
    "end": "+",
    "event": "command",
    "function-code": "#!lua name=other\nredis.register_function('other', function() return 1 end)",
    "function": "known",
    "group": "group",
    "host": "NO",
    "id": "1-1",
    "index1": "0",
    "index2": "1",
    "ip:port": "127.0.0.1:1",
    "key": "k",
    "last-id": "9-9",
    "library-name": "library",
    "max-deleted-id": "1-1",
    "max": "+inf",
    "min": "-inf",
    "milliseconds": "1",
    "newkey": "{k}new",
    "parameter": "hz",
    "password": "secret",
    "pattern": "*",
    "payload": "payload",
    "port": "ONE",
    "protover": "3",
    "rule": "on",
    "script": "return 1",
    "section": "server",
    "serialized-value": "payload",
    "sha1": "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    "source": "k",
    "sourcekey": "k",
    "start": "-",
    "subcommand": "HELP",
    "threshold": "1",
    "timeout": "1",
    "type": "stream",
    "unix-ms": "1",
    "unix-time-milliseconds": "99999999999999",
    "unix-time-seconds": "99999999999",
    "username": "default",
}
RANKS = {"start": "0", "stop": "1", "end": "1"}
LEXICAL = {"min": "-", "max": "+"}
OF_COMMAND = {
    **dict.fromkeys(("lrange", "ltrim", "zrange", "zrevrange", "zremrangebyrank", "getrange", "substr"), RANKS),
    **dict.fromkeys(("bitcount", "bitpos"), RANKS),
    **dict.fromkeys(("zrangebylex", "zrevrangebylex", "zlexcount", "zremrangebylex"), LEXICAL),
    "zrangestore": {"min": "0", "max": "1", "destination": "{k}other"},
    "acl|dryrun": {"command": "ping"},
    "acl|setuser": {"username": "someone"},
    "acl|deluser": {"username": "someone"},
    "auth": {"username": "default"},
    "config|set": {"value": "10"},
    "latency|history": {"event": "command"},
    "memory|usage": {"count": "5"},
    "object|freq": {},
    "sort": {"pattern": "weight_*"},
    "sort_ro": {"pattern": "weight_*"},
    "xgroup|create": {"group": "another"},
    "xinfo|stream": {},
    "xpending": {"start": "-", "end": "+"},
    "xautoclaim": {"start": "0"},
}
# Options that need another one, or a value that fits them.
WITH = {
    ("zadd", "INCR"): None,
    ("xadd", "LIMIT"): ["MAXLEN", "~", "10", "LIMIT", "1"],
    ("xtrim", "LIMIT"): ["MAXLEN", "~", "10", "LIMIT", "1"],
    ("client|tracking", "PREFIX"): ["ON", "BCAST", "PREFIX", "p"],
    ("zrange", "BYLEX"): ["-", "+", "BYLEX"],
    ("zrange", "BYSCORE"): ["0", "1", "BYSCORE"],
    ("zrange", "LIMIT"): ["0", "1", "BYSCORE", "LIMIT", "0", "1"],
    ("zrangestore", "BYLEX"): ["-", "+", "BYLEX"],
    ("zrangestore", "LIMIT"): ["0", "1", "BYSCORE", "LIMIT", "0", "1"],
}
LIBRARY = """#!lua name=library
redis.register_function{function_name='known', callback=function() return 1 end, flags={'no-writes'}}
"""
SETUP = {
    "stream": [["XADD", "k", "1-1", "a", "1"], ["XGROUP", "CREATE", "k", "group", "0"]],
    "list": [["RPUSH", "k", "1", "2"]],
    "set": [["SADD", "k", "1", "2"]],
    "sorted-set": [["ZADD", "k", "1", "1", "2", "2"]],
    "hyperloglog": [["PFADD", "k", "1"]],
    "geo": [["GEOADD", "k", "1", "1", "1"]],
    "hash": [["HSET", "k", "1", "1"]],
    "headrace": [["XADD", "k", "1-1", "a", "1"]],
    "scripting": [
        ["SCRIPT", "LOAD", "return 1"],
        [
            "FUNCTION",
            "LOAD",
            "REPLACE",
            LIBRARY,
        ],
    ],
}
NO_REPLY = {("client|reply", "OFF"), ("client|reply", "SKIP")}
ENDS_THE_SERVER = {("shutdown", option) for option in (None, "NOSAVE", "SAVE", "NOW", "FORCE")}  # test_serve runs them


def request(command: Command, option: str | None) -> list[str]:
    """Make the shortest request of a command that has an option."""
    name = command.name.decode()
    words = [*name.split("|")]
    special = WITH.get((name, option or ""))
    values = VALUES | OF_COMMAND.get(name, {})
    arguments = arguments_of(command.syntax)
    if special is not None:
        keys = [argument for argument in arguments if argument.kind == "key" and not argument.optional]
        tail = ["*", "a", "1"] if name == "xadd" else []
        return [*words, *(word for key in keys for word in rendered(key, None, values)), *special, *tail]
    for argument in arguments:
        if not argument.optional or has(argument, option):
            words += rendered(argument, option, values)
    return words


def has(argument: Argument, option: str | None) -> bool:
    return option is not None and (argument.token == option or any(has(inner, option) for inner in argument.inner))


def rendered(argument: Argument, option: str | None, values: dict[str, str]) -> Iterator[str]:
    if argument.token is not None:
        yield argument.token
    if argument.kind == "oneof":
        chosen = next((inner for inner in argument.inner if has(inner, option)), argument.inner[0])
        yield from rendered(chosen, option, values)
    elif argument.inner:
        for inner in argument.inner:
            if not inner.optional or has(inner, option):
                yield from rendered(inner, option, values)
    elif argument.kind != "pure-token":
        yield values.get(argument.name, "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("every-row")
    (path / "redis.conf").write_text("enable-debug-command yes\nlatency-monitor-threshold 1\n")
    (path / "users.acl").write_text("user default on nopass ~* &* +@all\n")
    with ServerProcess(path, str(path / "redis.conf"), "--aclfile", str(path / "users.acl")) as process:
        yield process


@pytest.mark.parametrize("name", EVERY)
def test_a_command_of_the_page_and_each_of_its_options_is_here(name: str, server: ServerProcess) -> None:
    command = EVERY[name]
    for option in (None, *options_of(command)):
        if (name, option) in ENDS_THE_SERVER:
            continue
        words = request(command, option)
        with closing(RawClient(server.port)) as client:
            client.run("FLUSHALL")
            client.run("CLIENT", "UNPAUSE")
            for prepared in SETUP.get(command.group, [["SET", "k", "1"]]):
                client.run(*prepared)
            if (name, option) in NO_REPLY:
                client.send_words(*words)
                continue
            reply = client.run(*words)
        if name in ROWS_REFUSED:
            continue
        problem = reply.lower() if reply.startswith(b"-") else b""
        assert not any(unfit in problem for unfit in UNFIT), (words, reply)


# --- what is said not to be here -----------------------------------------------------------------------------------


def not_here() -> set[str]:
    return set(" ".join((*NOT_HERE.values(), *NOT_HERE_LATER.values())).split())


@pytest.mark.parametrize("name", sorted(not_here()))
def test_what_is_said_not_to_be_here_is_not(name: str, server: ServerProcess) -> None:
    words = name.replace("*", "INFO").split("|")
    with closing(RawClient(server.port)) as client:
        reply = client.run(*words, *(["1"] if len(words) == 1 else []))
    assert reply.lower().startswith((b"-err unknown command", b"-err unknown subcommand")), reply


def test_everything_that_redis_py_can_send_is_here_or_said_not_to_be() -> None:
    families = tuple(name.removesuffix("*") for name in not_here() if name.endswith(".*"))
    containers = {name.decode() for name, command in TABLE.items() if command.handler is None and name == b"object"}
    unsaid = {
        name
        for name in sent_by_redis_py()
        if not {name, name.split("|")[0]} & (set(EVERY) | containers | not_here()) and not name.startswith(families)
    }
    assert unsaid == set()


def test_every_option_that_redis_py_can_send_is_here_or_said_not_to_be() -> None:
    sent = sent_by_redis_py()
    assert len(set(sent) & set(EVERY)) > 200, "the source of redis-py is read"
    for name in set(sent) & set(EVERY):
        known = {*options_of(EVERY[name]), *OPTIONS_NOT_HERE.get(name, ())}
        assert sent[name] <= known, name
