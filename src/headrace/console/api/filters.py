"""Which entries are wanted: `temp > 25 and dev = 3`.

    field = value    !=    >    >=    <    <=        as numbers where both are, else as bytes
    field ~ text                                     the value contains the text
    field                                            the entry has the field

Conditions are joined by `and`. A value with spaces stands between double quotes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.console.errors import Refused
from headrace.console.texts import bytes_of

_CONDITION: Final = re.compile(
    r'\s*(?:"(?P<quoted_name>[^"]*)"|(?P<name>[^\s=!<>~"]+))\s*'
    r'(?:(?P<operator>>=|<=|!=|=|>|<|~)\s*(?:"(?P<quoted>[^"]*)"|(?P<value>\S+)))?\s*(?:(?P<more>and)\b|$)',
    re.IGNORECASE,
)
_COMPARE: Final[dict[str, Callable[[float | bytes, float | bytes], bool]]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">": lambda left, right: left > right,  # type: ignore[operator]
    ">=": lambda left, right: left >= right,  # type: ignore[operator]
    "<": lambda left, right: left < right,  # type: ignore[operator]
    "<=": lambda left, right: left <= right,  # type: ignore[operator]
}


@dataclass(frozen=True)
class Condition:
    """One comparison; with no operator, that the field is there."""

    field: bytes
    operator: str
    value: bytes

    def holds(self, fields: list[bytes]) -> bool:
        """Whether one of the fields of that name is as wanted."""
        values = [value for name, value in zip(fields[::2], fields[1::2], strict=True) if name == self.field]
        if not self.operator:
            return bool(values)
        if self.operator == "~":
            return any(self.value in value for value in values)
        return any(self._compare(value) for value in values)

    def _compare(self, value: bytes) -> bool:
        left, right = _number(value), _number(self.value)
        if left is not None and right is not None:
            return _COMPARE[self.operator](left, right)
        return _COMPARE[self.operator](value, self.value)


def _number(value: bytes) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def read_filter(text: str) -> list[Condition]:
    """Read conditions; none where the text is empty."""
    conditions = []
    position = 0
    more = bool(text.strip())
    while more:
        found = _CONDITION.match(text, position)
        if found is None:
            raise Refused(400, "filter", text[position:])
        name = found["quoted_name"] if found["quoted_name"] is not None else found["name"]
        value = found["quoted"] if found["quoted"] is not None else found["value"] or ""
        conditions.append(Condition(bytes_of(name), found["operator"] or "", bytes_of(value)))
        position = found.end()
        more = found["more"] is not None
    return conditions
