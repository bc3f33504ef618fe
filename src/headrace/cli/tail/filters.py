"""Which entries to print: conditions on fields, and a regular expression on everything.

    temp>30   temp<=-4.5      compared as numbers where both are, else as text
    dev=3     state!=ok       numbers, else text
    note~^ab  note!~[0-9]     a regular expression, found anywhere in the value

An entry without the field fulfils only != and !~. Where an entry repeats a field, any of its values may fulfil the
condition.
"""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import typer

from headrace.cli.rows.row import Pairs
from headrace.cli.showing import raw

Condition: TypeAlias = Callable[[Pairs], bool]

_CONDITION: Final = re.compile(r"\s*(.+?)\s*(!~|!=|>=|<=|==|~|=|>|<)\s*(.*?)\s*", re.DOTALL)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def conditions(where: Sequence[str], grep: str | None) -> list[Condition]:
    """Read what the command line asks for; each is a usage error where it makes no sense."""
    found = [_condition(text) for text in where]
    if grep is not None:
        pattern = _pattern(grep, "--grep")
        found.append(lambda pairs: any(pattern.search(name + b"=" + value) for name, value in pairs))
    return found


def _condition(text: str) -> Condition:
    parsed = _CONDITION.fullmatch(text)
    if parsed is None:
        raise typer.BadParameter(
            f"{text!r} is no condition: write a field, one of = != > >= < <= ~ !~, and a value, such as temp>30.",
            param_hint="--where",
        )
    name, sign, value = raw(parsed[1]), parsed[2], raw(parsed[3])
    if sign in {"~", "!~"}:
        pattern = _pattern(parsed[3], "--where")
        if sign == "~":
            return lambda pairs: any(pattern.search(each) for field, each in pairs if field == name)
        return lambda pairs: not any(pattern.search(each) for field, each in pairs if field == name)
    if sign == "!=":
        return lambda pairs: not any(_holds("=", each, value) for field, each in pairs if field == name)
    return lambda pairs: any(_holds(sign, each, value) for field, each in pairs if field == name)


def _holds(sign: str, found: bytes, wanted: bytes) -> bool:
    try:
        return _COMPARE[sign](float(found), float(wanted))
    except ValueError:
        return _COMPARE[sign](found, wanted)


def _pattern(text: str, option: str) -> re.Pattern[bytes]:
    try:
        return re.compile(raw(text))
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}.", param_hint=option) from None
