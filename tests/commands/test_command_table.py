"""COMMAND says the same of each command as Redis does, and its documentation is that of the sources."""

import os
import pty
import select
import shutil
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.commands.all import TABLE
from headrace.commands.declaration.syntax import Argument, arguments_of
from headrace.commands.documentation.reference import page
from headrace.engine.command import Command
from support.patience import PATIENCE_S
from support.raw_client import RawClient, port_of

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"

SAME_ANSWERS = [
    "COMMAND NOSUCH",
    "COMMAND COUNT x",
    "COMMAND INFO nosuch xgroup|nosuch",
    "COMMAND DOCS nosuch",
    "COMMAND LIST NONSENSE",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY NONSENSE x",
    "COMMAND LIST FILTERBY MODULE nosuch",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY PATTERN nosuch*",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS nosuch x",
    "COMMAND GETKEYS ping x",
    "COMMAND GETKEYS xgroup nosuch k",
    "COMMAND GETKEYS xadd k",
    "COMMAND GETKEYS xadd k * field value",
    "COMMAND GETKEYS xlen k",
    "COMMAND GETKEYS xrange k - +",
    "COMMAND GETKEYS xrevrange k + -",
    "COMMAND GETKEYS xdel k 1-1",
    "COMMAND GETKEYS xtrim k MAXLEN 3",
    "COMMAND GETKEYS xsetid k 1-1",
    "COMMAND GETKEYS xack k group 1-1",
    "COMMAND GETKEYS xpending k group",
    "COMMAND GETKEYS xclaim k group consumer 0 1-1",
    "COMMAND GETKEYS xautoclaim k group consumer 0 0",
    "COMMAND GETKEYS xinfo stream k",
    "COMMAND GETKEYS xinfo groups k",
    "COMMAND GETKEYS xinfo consumers k group",
    "COMMAND GETKEYS xinfo help",
    "COMMAND GETKEYS xgroup create k group $",
    "COMMAND GETKEYS xgroup setid k group $",
    "COMMAND GETKEYS xgroup destroy k group",
    "COMMAND GETKEYS xgroup createconsumer k group consumer",
    "COMMAND GETKEYS xgroup delconsumer k group consumer",
    "COMMAND GETKEYS xread STREAMS k 0",
    "COMMAND GETKEYS xread COUNT 3 BLOCK 0 STREAMS k l 0 0",
    "COMMAND GETKEYS xread STREAMS STREAMS 0",
    "COMMAND GETKEYS xreadgroup GROUP group consumer STREAMS k l > >",
    "COMMAND GETKEYS xreadgroup GROUP STREAMS STREAMS STREAMS STREAMS k > >",
    "COMMAND GETKEYS watch k l",
    "COMMAND GETKEYS mset k v l v",
    "COMMAND GETKEYS blpop k l 0",
    "COMMAND GETKEYS lmpop 2 k l LEFT",
    "COMMAND GETKEYS lmpop 0 k l LEFT",
    "COMMAND GETKEYS lmpop 4 k l LEFT",
    "COMMAND GETKEYS lmpop x k l LEFT",
    "COMMAND GETKEYS blmpop 0 1 k LEFT COUNT 3",
    "COMMAND GETKEYS zunionstore d 2 k l WEIGHTS 1 2",
    "COMMAND GETKEYS sunionstore d k l",
    "COMMAND GETKEYS zinter 1 k",
    "COMMAND GETKEYS eval script 2 k l argument",
    "COMMAND GETKEYS eval script 0 argument",
    "COMMAND GETKEYS evalsha_ro sha 1 k",
    "COMMAND GETKEYS bzmpop 0 1 k MIN",
    "COMMAND GETKEYSANDFLAGS xadd k * field value",
    "COMMAND GETKEYSANDFLAGS xlen k",
    "COMMAND GETKEYSANDFLAGS xreadgroup GROUP group consumer STREAMS k l > >",
    "COMMAND GETKEYSANDFLAGS xgroup destroy k group",
]

# What 7.0.15 says otherwise: later versions changed it, or it is about features that Headrace does not have.
CHANGED_SINCE = {
    *(b"blmove", b"blpop", b"brpop", b"brpoplpush", b"bzpopmax", b"bzpopmin", b"command|getkeys"),
    *(b"command|getkeysandflags", b"zrank", b"zrevrank"),
}
UNKNOWN_FLAGS = {b"no_async_loading"}


def described(server: redis.Redis) -> dict[bytes, list[Any]]:
    """What COMMAND says of every command and subcommand."""
    client = redis.Redis(port=port_of(server), protocol=3)
    client.response_callbacks.clear()
    found: dict[bytes, list[Any]] = {}

    def walk(commands: list[Any]) -> None:
        for each in commands:
            found[each[0]] = each
            walk(each[9])

    with client:
        walk(client.execute_command("COMMAND"))
    return found


def test_answers_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    for protocol in (2, 3):
        with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
            for request in SAME_ANSWERS:
                assert ours.run(*request.split()) == theirs.run(*request.split()), request


def test_every_command_is_described_as_redis_describes_it(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    expected, found = described(redis_server), described(headrace_server)
    common = found.keys() & expected.keys() - CHANGED_SINCE
    assert {b"xadd", b"xgroup|create", b"xreadgroup", b"client|kill", b"multi"} <= common
    for name in common:
        theirs = expected[name]
        specs = [{part: value for part, value in spec.items() if part != b"notes"} for spec in theirs[8]]
        flags = [flag for flag in theirs[2] if flag not in UNKNOWN_FLAGS]
        assert found[name][:9] == [*theirs[:2], flags, *theirs[3:8], specs], name


def test_info_of_a_command_is_byte_for_byte_that_of_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    for protocol in (2, 3):
        with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
            for name in ("xlen", "XRANGE", "xread", "xreadgroup", "xgroup|create", "Client|Id", "exec", "ping"):
                assert ours.run("COMMAND", "INFO", name) == theirs.run("COMMAND", "INFO", name), name


def test_list_and_count_agree_with_the_table(headrace_server: redis.Redis) -> None:
    listed = headrace_server.execute_command("COMMAND LIST")
    assert headrace_server.command_count() == len(TABLE) == len([name for name in listed if b"|" not in name])
    assert b"xgroup|create" in listed


def test_list_filters_by_category_and_pattern(headrace_server: redis.Redis) -> None:
    streams = headrace_server.execute_command("COMMAND LIST", "FILTERBY", "ACLCAT", "stream")
    assert {b"xadd", b"xinfo|help", b"xgroup|create"} <= set(streams)
    assert not {b"xgroup", b"xinfo", b"ping"} & set(streams)
    assert sorted(headrace_server.execute_command("COMMAND LIST", "FILTERBY", "PATTERN", "XA[CD]*")) == [
        b"xack",
        b"xackdel",
        b"xadd",
    ]


@pytest.mark.parametrize(
    "request_",
    [
        "XACKDEL k group IDS 1 1-1",
        "XDELEX k IDS 1 1-1",
        "XNACK k group FAIL IDS 1 1-1",
        "XCFGSET k IDMP-MAXSIZE 3",
        "XIDMPRECORD k producer id 1-1",
        "XREAD MAXCOUNT 3 MAXSIZE 10 STREAMS k 0",
        "XREADGROUP GROUP group consumer CLAIM 10 NOACK STREAMS k >",
    ],
)
def test_keys_are_found_in_what_came_after_7_0(headrace_server: redis.Redis, request_: str) -> None:
    with RawClient.of(headrace_server) as wire:
        assert wire.run("COMMAND", "GETKEYS", *request_.split()) == b"*1\r\n$1\r\nk\r\n"


# --- documentation -------------------------------------------------------------------------------------------------


def commands_of(table: dict[bytes, Command]) -> list[Command]:
    return [each for command in table.values() for each in (command, *commands_of(command.subcommands))]


@pytest.mark.parametrize("command", commands_of(TABLE), ids=lambda command: command.name.decode())
def test_every_command_says_what_it_does_in_a_sentence(command: Command) -> None:
    assert command.summary.endswith(".")
    assert command.summary[0].isupper()
    assert command.since.count(".") == 2


@pytest.mark.parametrize("command", commands_of(TABLE), ids=lambda command: command.name.decode())
def test_every_syntax_can_be_read_and_fits_the_arity(command: Command) -> None:
    if command.subcommands and command.handler is None:
        return

    def least(arguments: tuple[Argument, ...]) -> int:
        words = 0
        for argument in arguments:
            if argument.optional:
                continue
            if argument.kind == "oneof":
                words += min(least((choice,)) for choice in argument.inner)
            elif argument.kind == "block":
                words += least(argument.inner)
            else:
                words += 1
            words += argument.token is not None and argument.kind != "pure-token"
        return words

    assert command.syntax.split(" ")[0] == command.name.decode()
    name_words = 1 + command.name.count(b"|")
    assert least(arguments_of(command.syntax)) + name_words <= abs(command.arity)


def test_docs_give_the_tree_of_arguments(headrace_server: redis.Redis) -> None:
    with redis.Redis(port=port_of(headrace_server), protocol=3, decode_responses=True) as client:
        docs = client.execute_command("COMMAND DOCS", "xreadgroup", "nosuch", "xgroup")
    assert set(docs) == {"xreadgroup", "xgroup"}
    reading = docs["xreadgroup"]
    assert (reading["since"], reading["group"]) == ("5.0.0", "stream")
    by_name = {argument["name"]: argument for argument in reading["arguments"]}
    assert by_name["group"] == {"name": "group", "type": "string", "display_text": "group", "token": "GROUP"}
    expected = {"name": "key", "type": "key", "display_text": "key", "key_spec_index": 0, "token": "STREAMS"}
    assert by_name["key"].items() >= expected.items()
    assert set(by_name["key"]["flags"]) == {"multiple"}
    assert set(by_name["milliseconds"]["flags"]) == {"optional"}
    assert "xgroup|create" in docs["xgroup"]["subcommands"]


def test_a_syntax_becomes_a_tree() -> None:
    arguments = arguments_of("x key [NO] [A one | B two three] *|id [LIMIT count] field value [field value ...]")
    assert [(each.name, each.kind, each.token, each.optional, each.multiple) for each in arguments] == [
        ("key", "key", None, False, False),
        ("no", "pure-token", "NO", True, False),
        ("one", "oneof", None, True, False),
        ("id", "oneof", None, False, False),
        ("count", "integer", "LIMIT", True, False),
        ("field", "block", None, False, True),
    ]
    assert arguments[2].inner == (
        Argument("one", "string", "A"),
        Argument("two", "block", inner=(Argument("two", "string", "B"), Argument("three", "string"))),
    )


def test_the_page_of_commands_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def read_until(terminal: int, text: bytes) -> bytes:
    """Read what a terminal shows, up to a text."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    while text not in shown:
        assert select.select([terminal], [], [], max(deadline - time.monotonic(), 0))[0], shown
        shown += os.read(terminal, 4096)
    return shown


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="there is no redis-cli")
def test_redis_cli_shows_hints_while_one_types(headrace_server: redis.Redis) -> None:
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, 120))
    cli = subprocess.Popen(
        ["redis-cli", "-p", str(port_of(headrace_server))],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "HOME": "/nonexistent"},
    )
    os.close(inside)
    try:
        read_until(terminal, b"> ")
        os.write(terminal, b"xgroup create ")
        assert b"key group" in read_until(terminal, b"[MKSTREAM]")
    finally:
        cli.kill()
        cli.wait()
        os.close(terminal)
