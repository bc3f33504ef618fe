"""docs/compatibility.md is what the table of commands says, and the table says what redis-server says of itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.commands.all import TABLE
from headrace.commands.documentation.compatibility import options_of, page
from headrace.commands.documentation.option_history import FORMS_SINCE, NOT_HERE, OPTIONS_SINCE
from headrace.engine.command import Command

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
ORACLE = (7, 0)
SPELT_OTHERWISE = {
    *(("bitop", operation) for operation in ("AND", "OR", "XOR", "NOT")),
    *(("client|kill", "YES"), ("client|kill", "NO"), ("client|pause", "2.9.50")),
}


def ours() -> dict[str, Command]:
    every = [each for command in TABLE.values() for each in (command, *command.subcommands.values())]
    return {command.name.decode(): command for command in every if command.handler is not None}


@pytest.fixture(scope="module")
def theirs(redis_process: redis.Redis) -> dict[str, dict[str, Any]]:
    """What redis-server tells of its commands."""
    with redis.Redis(port=redis_process.connection_pool.connection_kwargs["port"], decode_responses=True) as client:
        client.response_callbacks.pop("COMMAND", None)
        found: dict[str, dict[str, Any]] = {}
        for name, told in _pairs(client.execute_command("COMMAND", "DOCS")).items():
            found[name] = _pairs(told)
            for inner, inner_told in _pairs(found[name].get("subcommands", [])).items():
                found[inner] = _pairs(inner_told)
        return found


def _pairs(flat: Any) -> dict[str, Any]:
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def _options(arguments: list[Any], since: str | None = None) -> Iterator[tuple[str, str | None]]:
    """Yield every option with the version that brought it, where that is told."""
    for argument in map(_pairs, arguments):
        here = argument.get("since", since)
        if "token" in argument:
            yield argument["token"], here
        yield from _options(argument.get("arguments", []), here)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "make docs writes it"


def test_only_options_that_commands_have_are_dated() -> None:
    for name, options in OPTIONS_SINCE.items():
        assert set(options) <= set(options_of(ours()[name])), name
    assert set(FORMS_SINCE) <= set(ours())


def test_redis_server_dates_commands_and_options_the_same(theirs: dict[str, dict[str, Any]]) -> None:
    for name, command in ours().items():
        if name not in theirs:
            assert command.group == "headrace" or _version(command.since)[:2] > ORACLE, name
            continue
        if (name, theirs[name]["since"]) not in SPELT_OTHERWISE:
            assert command.since == theirs[name]["since"], name
        told = dict(_options(theirs[name].get("arguments", [])))
        for option in options_of(command):
            if (name, option) in SPELT_OTHERWISE:
                continue
            since = OPTIONS_SINCE.get(name, {}).get(option)
            if option not in told:
                assert since is not None, f"{name} {option}"
                assert _version(since)[:2] > ORACLE, f"{name} {option}"
            elif told[option] is not None:
                assert (since or command.since) == told[option], f"{name} {option}"


def test_every_command_of_redis_server_is_here_or_said_not_to_be(theirs: dict[str, dict[str, Any]]) -> None:
    not_here = " ".join(NOT_HERE.values()).split()
    assert sorted(not_here) == sorted(set(theirs) - set(ours()) - {command.decode() for command in TABLE})
