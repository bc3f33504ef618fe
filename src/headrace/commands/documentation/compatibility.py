"""docs/compatibility.md, written from the table as docs/commands.md is; `make docs` runs this."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from headrace.commands.all import TABLE
from headrace.commands.declaration.syntax import Argument, arguments_of
from headrace.commands.documentation.option_history import (
    FORMS_SINCE,
    NOT_HERE,
    NOT_HERE_LATER,
    OPTIONS_NOT_HERE,
    OPTIONS_SINCE,
    ROWS_REFUSED,
)
from headrace.commands.documentation.reference import TITLES
from headrace.engine import REDIS_VERSION
from headrace.engine.command import Command
from headrace.engine.configuration.config import SETTINGS
from headrace.engine.configuration.settings import Setting, quote

VERSIONS: Final = ("5.0", "6.0", "6.2", "7.0", "7.2", "7.4", "8.0", "8.2", "8.4", "8.6", "8.8", "8.10")

_HEAD: Final = f"""\
# Compatibility

Every command and option of Headrace, and which versions of Redis have it, in the order of [commands.md](commands.md);
`make docs` writes this page from the table of commands. Headrace answers as Redis {REDIS_VERSION.decode()} does:
replies, errors, effects and files are compared with a live redis-server 7.0 and with what Redis 8.9 answered
([architecture.md](architecture.md), "How it is proved"). A test runs every row of the tables, and another compares the
page with all that redis-py can send.

*Since* is the version of Redis that brought a command, with the options beside its name, or the options below it.
● that version of Redis has it. Headrace has everything in these tables{{refused}};
what it has not is under [Not here](#not-here).
"""
_NOT_HERE: Final = """\
## Not here

Commands of redis-server 7.0 that Headrace answers with `ERR unknown command` (or unknown subcommand):

| for | commands |
| --- | --- |
"""
_LATER: Final = """

Commands that came with later versions, and are answered in the same way:

| for | commands |
| --- | --- |
"""
_OPTIONS: Final = """

Options of commands in the tables above that are refused as a syntax error:

| command | options |
| --- | --- |
"""
_EVENTS: Final = """

`notify-keyspace-events` knows no events of the fields of hashes: the letters S, T, I and V of Redis 8.8 are refused."""
_FILES: Final = """

## Files

RDB files and append-only directories of Redis 5.0 to 8.x are loaded; what is written can be loaded by Redis of the
version that `rdb-compatibility-version` names ([operations.md](operations.md), "From Redis, and back"). One thing
differs while a server runs, and after it was killed: the last append-only file ends with prepared space, zeros, which
`redis-check-aof` calls a format error and redis-server refuses. A clean stop, the next start, or `headrace check --fix
directory` cuts it ([durability.md](durability.md), "After a crash").

## Settings

Every setting of Redis 7.0 to 8.10 and of Valkey 8 is known. It acts, or it has nothing to tune here: then it is kept,
and the log names it. These can have no other value, because others would ask for what is not here:

| setting | value | because |
| --- | --- | --- |
"""


def page() -> str:
    """Write the page."""
    groups = sorted({command.group for command in TABLE.values()}, key=list(TITLES).index)
    refused = ", ".join(name.upper().replace("|", " ") for name in ROWS_REFUSED)
    head = _HEAD.replace("{refused}", f" but {refused}, which it refuses" if refused else "")
    return "\n".join([head, *(f"## {TITLES[group]}\n\n{_table(group)}" for group in groups), _not_here()])


def _table(group: str) -> str:
    of_redis = group != "headrace"
    versions = VERSIONS if of_redis else ()
    heads = ("", "since", *versions)
    lines = [_row(heads), _row(("---", "---", *(":-:" for _ in versions)))]
    for _, command in sorted(TABLE.items()):
        if command.group == group:
            inner = [each for _, each in sorted(command.subcommands.items())]
            for each in (command, *inner):
                if each.handler is not None:
                    lines += _rows(each, versions)
    return "\n".join(lines) + "\n"


def _rows(command: Command, versions: tuple[str, ...]) -> Iterator[str]:
    """Write the line of a command, and one for each version that brought it options."""
    name = command.name.decode()
    brought: dict[str, list[str]] = defaultdict(list)
    brought[command.since].append(f"**{name.upper().replace('|', ' ')}**")
    later = OPTIONS_SINCE.get(name, {})
    for token in options_of(command):
        brought[later.get(token, command.since)].append(f"`{token}`")
    for form, since in FORMS_SINCE.get(name, {}).items():
        brought[since].append(form)
    for since, what in sorted(brought.items(), key=lambda item: _parts(item[0])):
        indent = "" if since == command.since else "&emsp;"
        yield _row((f"{indent}{' '.join(what)}", *_since(since, versions)))


def options_of(command: Command) -> list[str]:
    """Return the words that stand for themselves in a command's syntax, in its order; signs are none."""
    return [token for token in dict.fromkeys(_tokens(arguments_of(command.syntax))) if token.isupper()]


def _tokens(arguments: tuple[Argument, ...]) -> Iterator[str]:
    for argument in arguments:
        if argument.token is not None:
            yield argument.token
        yield from _tokens(argument.inner)


def _since(since: str, versions: tuple[str, ...]) -> list[str]:
    marks = ["●" if _parts(since)[:2] <= _parts(version) else "" for version in versions]
    return [f"{'Headrace ' if not versions else ''}{since}", *marks]


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _values_of(setting: Setting) -> str:
    values = setting.only if isinstance(setting.only, tuple) else (setting.only,)
    return ", ".join(f"`{setting.show(value) or quote('')}`" for value in values)


def _not_here() -> str:
    options = [(name.upper(), " ".join(f"`{option}`" for option in left)) for name, left in OPTIONS_NOT_HERE.items()]
    only = [
        (f"`{setting.name}`", _values_of(setting), setting.because)
        for setting in sorted(SETTINGS, key=lambda setting: setting.name)
        if setting.because
    ]
    return "".join(
        [
            _NOT_HERE,
            "\n".join(map(_row, _named(NOT_HERE))),
            _LATER,
            "\n".join(map(_row, _named(NOT_HERE_LATER))),
            _OPTIONS,
            "\n".join(map(_row, options)),
            _EVENTS,
            _FILES,
            "\n".join(map(_row, only)),
            "\n",
        ]
    )


def _named(groups: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (what, ", ".join(f"`{name.upper().replace('|', ' ')}`" for name in names.split()))
        for what, names in groups.items()
    ]


if __name__ == "__main__":
    sys.stdout.write(page())
