"""Messages as columns, for programs that compute with them.

    id        '1526919030474-55'                     text, as everywhere else
    time      2018-05-21 16:10:30.474 UTC            when it was added, by its ID
    …         one column a field, in the order in which they first come; null where a message has no such field

pyarrow and pandas are asked for when they are needed, and are not needed for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from headrace.api.errors import MissingLibrary
from headrace.api.message import Message


def to_arrow(messages: Iterable[Message], types: Mapping[str, Any]) -> Any:
    """Make an Arrow table."""
    arrow = _library("pyarrow", "to_arrow")
    ids, times, fields = _columns(messages)
    made = {
        "id": arrow.array(ids, arrow.string()),
        "time": arrow.array(times, arrow.int64()).cast(arrow.timestamp("ms", "UTC")),
    }
    for name, values in fields.items():
        text = arrow.binary() if any(isinstance(value, bytes) for value in values) else arrow.string()
        column = arrow.array(values, text)
        wanted = types.get(name)
        if isinstance(wanted, str):
            wanted = arrow.type_for_alias(wanted)
        made[name] = column if wanted is None else column.cast(wanted)
    return arrow.table(made)


def to_pandas(messages: Iterable[Message], types: Mapping[str, Any]) -> Any:
    """Make a DataFrame."""
    library = _library("pandas", "to_pandas")
    ids, times, fields = _columns(messages)
    frame = library.DataFrame(
        {"time": library.to_datetime(times, unit="ms", utc=True), **fields}, index=library.Index(ids, name="id")
    )
    return frame.astype({name: kind for name, kind in types.items() if name in fields})


def _columns(messages: Iterable[Message]) -> tuple[list[str], list[int], dict[str, list[Any]]]:
    """IDs, Unix milliseconds, and the values of each field."""
    ids: list[str] = []
    times: list[int] = []
    fields: dict[str, list[Any]] = {}
    for row, message in enumerate(messages):
        ids.append(str(message.id))
        times.append(message.id.ms)
        for name, value in message.pairs:
            column = fields.setdefault(name if isinstance(name, str) else name.decode("utf-8", "replace"), [])
            column.extend([None] * (row - len(column)))
            column[row:] = [value]
    for column in fields.values():
        column.extend([None] * (len(ids) - len(column)))
    return ids, times, fields


def _library(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingLibrary(f"{method}() needs {name}, which is not installed: pip install {name}") from None
