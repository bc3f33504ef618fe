"""The rules of queues in a file, `policies` in the configuration: set at the start, and again when the file changes.

    [[policy]]
    key = "orders"                      or match = "orders:*"; db = 1 where it is not the first database
    maxage = "7d"
    refs = "acked"

    [[policy]]
    match = "jobs:*"
    group = "workers"
    visibility = "30s"
    retry = ["1s", "5m"]
    max-deliveries = 5

The names are those of `headrace policy set`. A file with a mistake changes nothing: at the start the server does not
start, and later the log says what is wrong. A rule that is no longer in the file goes, if this server has set it from
there; rules that clients have set stay. SIGHUP has the file read at once; else its time is looked at every second. A
replica sets nothing, because its master keeps the rules, until it is promoted.
"""

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.engine.channel import CLOSED
from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.rules.rule import read_group_rule, read_stream_rule
from headrace.server.log import Log

_LOOK_MS: Final = 1000
_WORDS: Final = {
    "maxlen": b"MAXLEN",
    "maxage": b"MAXAGE",
    "maxbytes": b"MAXBYTES",
    "visibility": b"VISIBILITY",
    "max-deliveries": b"MAXDELIVERIES",
    "dead-letter": b"DEADLETTER",
    "consumer-ttl": b"CONSUMERTTL",
}
_PLACE: Final = frozenset({"key", "match", "group", "db"})

Target = tuple[int, tuple[bytes, ...]]  # a database, and the words that name a key or pattern, and a group


class BadPolicies(HeadraceError, ValueError):
    """A file of rules that cannot be taken over; the text says where and why."""


def read_policies(path: str, databases: int) -> dict[Target, list[bytes]]:
    """Read a file: for each target the words of its rule."""
    try:
        tables = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise BadPolicies(f"The file of policies {path} cannot be read: {os.strerror(error.errno or 0)}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPolicies(f"The file of policies {path} is no TOML: {error}.") from None
    rows = tables.pop("policy", [])
    if tables or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadPolicies(f"The file of policies {path} has something else than [[policy]] tables.")
    rules: dict[Target, list[bytes]] = {}
    for number, row in enumerate(rows, 1):
        try:
            target, words = _read_row(row, databases)
        except (ValueError, CommandError) as mistake:
            raise BadPolicies(f"Policy {number} of {path}: {str(mistake).removeprefix('ERR ')}.") from None
        if target in rules:
            raise BadPolicies(f"Policy {number} of {path}: there is one before it for the same target.")
        rules[target] = words
    return rules


def _read_row(row: dict[str, Any], databases: int) -> tuple[Target, list[bytes]]:
    if ("key" in row) == ("match" in row):
        raise ValueError("it needs either a key, or match and a pattern")
    number = row.get("db", 0)
    if not isinstance(number, int) or not 0 <= number < databases:
        raise ValueError(f"there is no database {number!r}")
    named = [_text(row["key"])] if "key" in row else [b"MATCH", _text(row["match"])]
    words = _read_words({name: value for name, value in row.items() if name not in _PLACE})
    if "group" in row:
        read_group_rule(words, 0)
        named += [b"GROUP", _text(row["group"])]
    else:
        read_stream_rule(words, 0)
    return (number, tuple(named)), words


def _read_words(options: dict[str, Any]) -> list[bytes]:
    words: list[bytes] = []
    for name, value in options.items():
        if name in _WORDS:
            words += [_WORDS[name], _text(value)]
        elif name == "refs":
            words.append(_text(value))
        elif name == "drop":
            words += [b"DROP", _text(value)]
        elif name == "retry" and isinstance(value, list):
            words += [b"RETRY", *map(_text, value)]
        elif name == "create-from":
            words += [b"CREATE", b"FROM", _text(value)]
        else:
            raise ValueError(f"{name!r} is no option of a rule")
    return words


def _text(value: object) -> bytes:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is neither a text nor a number")
    return str(value).encode()


class PolicyFile:
    """Keeps the rules of a file set on this server."""

    def __init__(self, engine: Engine, path: str, log: Log) -> None:
        self._engine = engine
        self._path = path
        self._log = log
        self._changed_ns = 0
        self._set: dict[Target, list[bytes]] = {}
        self._look = engine.chores.register(self._look_again, in_unix_time=False)

    def watch(self) -> None:
        """Set the rules of the file from now on, and those that it will have."""
        self._look_again()
        self._look.expect(self._engine.clocks.steady_ms() + _LOOK_MS)

    def reload(self) -> None:
        """Read the file again, whether it has changed or not."""
        self._changed_ns = 0
        self._look_again()

    def _look_again(self) -> int:
        if not self._engine.is_replica and not self._engine.loading:
            try:
                changed_ns = Path(self._path).stat().st_mtime_ns
            except OSError:
                changed_ns = -1
            if changed_ns != self._changed_ns:
                self._changed_ns = changed_ns
                self._take_over()
        return self._engine.clocks.steady_ms() + _LOOK_MS

    def _take_over(self) -> None:
        try:
            rules = read_policies(self._path, len(self._engine.databases))
        except BadPolicies as mistake:
            self._log.warning(f"{mistake} The rules stay as they are.")
            return
        for number, named in self._set.keys() - rules.keys():
            self._run(number, [b"DEL", *named])
        for (number, named), words in rules.items():
            self._run(number, [b"SET", *named, *words])
        self._set = rules
        self._engine.flush_clients()
        self._log.notice(f"{len(rules)} rules are taken over from {self._path}")

    def _run(self, number: int, words: list[bytes]) -> None:
        client = Client(0, self._engine.databases[number], CLOSED, 0)
        client.authenticated = True
        self._engine.execute(client, [b"HEADRACE", b"POLICY", *words])
        reply = b"".join(client.reply.take())
        if reply.startswith(b"-"):
            refusal = reply[1:].strip().removeprefix(b"ERR ").decode("utf-8", "backslashreplace")
            self._log.warning(f"A rule of {self._path} is refused: {refusal}")
            if self._engine.refusals.writes is not None:  # for a moment
                self._changed_ns = 0
