"""`headrace policy set`, `get`, `del` and `list`; the server reads and refuses what a rule says."""

import json
from typing import Any, Final, NamedTuple

from rich.table import Table
from rich.text import Text

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import duration, lossless, number, raw, shown, size
from headrace.cli.terminal import output_console
from headrace.cli.times import written

_DURATIONS: Final = {"maxage", "visibility", "retry-min", "retry-max", "consumerttl"}
_MOMENTS: Final = {"since", "counted-since"}
_ABOUT: Final = {"key", "match", "group", "since"}  # what else a row of the list has, beside what the rule says

Pairs = dict[str, str | int]


class Wanted(NamedTuple):
    """The options of `headrace policy set`."""

    maxlen: int | None
    maxage: str | None
    maxbytes: str | None
    refs: str | None
    drop_acked: bool
    visibility: str | None
    retry: tuple[str, str] | None
    max_deliveries: int | None
    dead_letter: str | None
    consumer_ttl: str | None
    create_from: str | None

    def words(self) -> list[bytes]:
        """Write them as HEADRACE POLICY SET takes them."""
        valued = {
            "MAXLEN": self.maxlen,
            "MAXAGE": self.maxage,
            "MAXBYTES": self.maxbytes,
            "VISIBILITY": self.visibility,
            "MAXDELIVERIES": self.max_deliveries,
            "DEADLETTER": self.dead_letter,
            "CONSUMERTTL": self.consumer_ttl,
        }
        words = [raw(str(word)) for name, value in valued.items() if value is not None for word in (name, value)]
        if self.refs is not None:
            words.append(raw(self.refs))
        if self.drop_acked:
            words += [b"DROP", b"ACKED"]
        if self.retry is not None:
            words += [b"RETRY", *map(raw, self.retry)]
        if self.create_from is not None:
            words += [b"CREATE", b"FROM", raw(self.create_from)]
        return words


def run_set(server: ServerAddress, key: str | None, match: str | None, group: str | None, wanted: Wanted) -> None:
    """Set a rule."""
    target, name = _target(key, match, group)
    with connected(server) as client:
        ask(client, "HEADRACE", "POLICY", "SET", *target, *wanted.words())
    print(f"The rule of {name} is in force.")  # noqa: T201


def run_get(server: ServerAddress, key: str | None, match: str | None, group: str | None, *, as_json: bool) -> None:
    """Show a rule."""
    target, name = _target(key, match, group)
    with connected(server) as client:
        reply = ask(client, "HEADRACE", "POLICY", "GET", *target)
    if as_json:
        print(json.dumps(None if reply is None else _pairs(reply)))  # noqa: T201
        return
    if reply is None:
        raise CommandFailed(f"There is no rule for {name}: set one with `headrace policy set`.")
    table = Table(show_header=False, box=None, pad_edge=False)
    for option, value in _pairs(reply).items():
        if option != "active":
            table.add_row(option, Text(_shown(option, value)))
    output_console().print(table)
    if not _pairs(reply)["active"]:
        print("This server is a replica: its master keeps the rule.")  # noqa: T201


def run_delete(server: ServerAddress, key: str | None, match: str | None, group: str | None) -> None:
    """Take a rule back."""
    target, name = _target(key, match, group)
    with connected(server) as client:
        existed = ask(client, "HEADRACE", "POLICY", "DEL", *target)
    if not existed:
        raise CommandFailed(f"There is no rule for {name}: `headrace policy list` shows all.")
    print(f"The rule of {name} is gone.")  # noqa: T201


def run_list(server: ServerAddress, pattern: str | None, *, as_json: bool) -> None:
    """List the rules."""
    with connected(server) as client:
        rows = [_pairs(row) for row in ask(client, "HEADRACE", "POLICY", "LIST", *([raw(pattern)] if pattern else []))]
    if as_json:
        print(json.dumps(rows))  # noqa: T201
        return
    if not rows:
        print("There are no rules.")  # noqa: T201
        return
    table = Table(box=None, pad_edge=False)
    for column in ("for", "group", "rule", "since"):
        table.add_column(column, overflow="fold")
    for row in rows:
        said = ", ".join(f"{name} {_shown(name, value)}" for name, value in row.items() if name not in _ABOUT)
        place = str(row["key"]) if "key" in row else f"match {row['match']}"
        table.add_row(
            Text(shown(raw(place))), Text(shown(raw(str(row.get("group", ""))))), Text(said), written(int(row["since"]))
        )
    output_console().print(table)


def _target(key: str | None, match: str | None, group: str | None) -> tuple[list[bytes], str]:
    """Return the words that say what a rule is for, and its name for a person."""
    if (key is None) == (match is None):
        raise CommandFailed("Say what the rule is for: either a stream, or --match and a pattern.")
    words = [raw(key)] if key is not None else [b"MATCH", raw(str(match))]
    name = shown(words[-1])
    if group is not None:
        words += [b"GROUP", raw(group)]
        name = f"the group {shown(raw(group))} of {name}"
    return words, name


def _pairs(reply: list[Any]) -> Pairs:
    return {
        name.decode(): lossless(value) if isinstance(value, bytes) else int(value)
        for name, value in zip(reply[::2], reply[1::2], strict=True)
    }


def _shown(option: str, value: str | int) -> str:
    if isinstance(value, str):
        return shown(raw(value))
    if option in _MOMENTS:
        return written(value)
    if option in _DURATIONS:
        return duration(value)
    return size(value) if option == "maxbytes" else number(value)
