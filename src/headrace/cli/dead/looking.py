"""`headrace dead list` and `headrace dead show`: tables, or JSON."""

import json
from collections import deque

import redis
from rich.table import Table
from rich.text import Text

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected, require_stream, stream_keys
from headrace.cli.dead.letters import Letter, letters_of, read_letter
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import lossless, number, raw, shown
from headrace.cli.terminal import output_console
from headrace.cli.times import written

_FIELDS_SHOWN = 60  # characters of the fields of a letter, in a list


def run_list(server: ServerAddress, *, as_json: bool) -> None:
    """List the streams whose last entry is a dead letter."""
    with connected(server) as client:
        found = [(key, *facts) for key in sorted(stream_keys(client)) if (facts := _facts(client, key)) is not None]
    if as_json:
        told = [{"stream": lossless(key), "length": length, "last": last.as_json()} for key, length, last in found]
        print(json.dumps(told))  # noqa: T201
        return
    table = _table("dead letters", "from", "group", "last died", "reason", right=("length",))
    for key, length, last in found:
        table.add_row(shown(key), *_place(last), written(last.died_ms), _reason(last), number(length))
    _print(table, "There are no dead letters.")


def _facts(client: redis.Redis, key: bytes) -> tuple[int, Letter] | None:
    newest = ask(client, "XREVRANGE", key, "+", "-", "COUNT", 1)
    if not newest:
        return None
    letter = read_letter(*newest[0])
    return None if letter.origin is None else (int(ask(client, "XLEN", key)), letter)


def run_show(
    server: ServerAddress, name: str, id: str | None, *, where: tuple[str, str] | None, count: int, as_json: bool
) -> None:
    """Show letters in a line each, or one completely."""
    key = raw(name)
    with connected(server) as client:
        require_stream(client, key)
        if id is not None:
            _show_one(client, key, id, as_json=as_json)
            return
        # The newest, and one more, to know whether there are more.
        found = deque((letter for letter in letters_of(client, key) if letter.has(where)), maxlen=count + 1)
    more = len(found) > count
    letters = list(found)[-count:]
    if as_json:
        print(json.dumps([letter.as_json() for letter in letters]))  # noqa: T201
        return
    table = _table("id", "from", "group", "reason", "fields", right=("deliveries",))
    for letter in letters:
        deliveries = number(letter.origin.deliveries) if letter.origin is not None else ""
        table.add_row(letter.id.decode(), *_place(letter), _reason(letter), _summary(letter), deliveries)
    _print(table, "There are no such dead letters.")
    if more:
        output_console().print(Text(f"and older ones: --count {count * 5}", style="dim"))


def _show_one(client: redis.Redis, key: bytes, id: str, *, as_json: bool) -> None:
    found = ask(client, "XRANGE", key, id, id)
    if not found:
        raise CommandFailed(f"There is no entry {id} in {shown(key)}: `headrace dead show {shown(key)}` lists them.")
    letter = read_letter(*found[0])
    if as_json:
        print(json.dumps(letter.as_json()))  # noqa: T201
        return
    table = _table("field", "value", right=())
    for field, value in zip(letter.fields[::2], letter.fields[1::2], strict=True):
        table.add_row(Text(shown(field)), Text(shown(value)))
    _print(table, "")


def _place(letter: Letter) -> tuple[Text, Text]:
    if letter.origin is None:
        return Text("?"), Text("")
    return Text(shown(letter.origin.stream)), Text(shown(letter.origin.group))


def _reason(letter: Letter) -> Text:
    return Text("" if letter.origin is None else shown(letter.origin.reason))


def _summary(letter: Letter) -> Text:
    text = " ".join(
        f"{shown(name)}={shown(value)}" for name, value in zip(letter.own[::2], letter.own[1::2], strict=True)
    )
    return Text(text if len(text) <= _FIELDS_SHOWN else text[:_FIELDS_SHOWN] + "…")


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in left:
        table.add_column(name, overflow="fold", no_wrap=name in {"id", "last died"})
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _print(table: Table, otherwise: str) -> None:
    console = output_console()
    console.print(table if table.row_count else otherwise)
