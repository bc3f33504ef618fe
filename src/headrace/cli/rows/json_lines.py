"""JSON lines: one object a line.

    {"_id": "1526919030474-55", "dev": "3", "temp": "26"}
    {"_id": "1526919030474-56", "_fields": [["tag", "a"], ["tag", "b"]]}      where an object could not hold it

When a line is read, a number becomes the text that stands there, true and false become these words, null is a field
that the entry does not have, and nested values become JSON again. The ID may be missing; a name may come twice.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from headrace.cli.errors import CommandFailed
from headrace.cli.rows.row import ID_COLUMN, Pairs, Row
from headrace.cli.showing import lossless, raw

FIELDS: Final = "_fields"
KEY: Final = "_key"

_WORDS: Final = {True: b"true", False: b"false"}


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object as it was written: a name may come twice."""


_DECODER: Final = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_Object
)


def json_line(id: bytes, pairs: Pairs, key: bytes | None = None) -> bytes:
    """Write an entry as a line; with the name of its stream, where one is given."""
    told: dict[str, Any] = {} if key is None else {KEY: lossless(key)}
    told[ID_COLUMN] = id.decode()
    fields = {lossless(name): lossless(value) for name, value in pairs}
    if len(fields) < len(pairs) or not fields.keys().isdisjoint((ID_COLUMN, FIELDS, KEY)):
        told[FIELDS] = [[lossless(name), lossless(value)] for name, value in pairs]
    else:
        told |= fields
    text = json.dumps(told, ensure_ascii=False, separators=(", ", ": "))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # bytes that are no UTF-8 are lone surrogates, which only an escape can write
        return json.dumps(told).encode() + b"\n"


def read_json_lines(file: BinaryIO, id_column: str) -> Iterator[Row]:
    """Read rows; blank lines are passed over."""
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            told = _DECODER.decode(lossless(line).strip())
        except (json.JSONDecodeError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
            raise CommandFailed(f"Line {number} is no JSON: {reason}.") from None
        if not isinstance(told, _Object):
            raise CommandFailed(f'Line {number} is no JSON object: write {{"field": "value", …}}.')
        yield _row(told, number, id_column)


def _row(told: _Object, number: int, id_column: str) -> Row:
    beside = {name: value for name, value in told if name in {id_column, FIELDS, KEY}}
    fields = [(raw(name), _text(value)) for name, value in told if name not in beside and value is not None]
    id = beside.get(id_column)
    if id is not None and not isinstance(id, str):
        raise CommandFailed(f'Line {number} has {id_column!r} that is no ID: write "1526919030474-55".')
    if FIELDS in beside:
        if fields:
            raise CommandFailed(f"Line {number} has {FIELDS} and other fields beside them: write them in one place.")
        fields = _listed(beside[FIELDS], number)
    if not fields:
        raise CommandFailed(f"Line {number} has no fields, and an entry needs at least one.")
    return Row(None if id is None else raw(id), fields, number)


def _listed(fields: Any, number: int) -> Pairs:
    if not isinstance(fields, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in fields
    ):
        raise CommandFailed(f'Line {number} has {FIELDS} that are no list of ["name", "value"].')
    return [(raw(name), _text(value)) for name, value in fields]


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        return raw(value)
    if isinstance(value, bool):
        return _WORDS[value]
    return _nested(value).encode("utf-8", "surrogateescape")


def _nested(value: Any) -> str:
    """Write what is nested as JSON again, with its numbers as they were."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        return "{" + ", ".join(f"{_quoted(name)}: {_nested(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
