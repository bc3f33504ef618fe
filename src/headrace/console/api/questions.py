"""The questions of the page, checked: a wrong question is refused, and every number is within its bounds."""

from typing import Any

from headrace.console.errors import Refused
from headrace.console.texts import bytes_of


def name_in(body: dict[str, Any], field: str) -> bytes:
    """Read a name of a stream, a group or a consumer."""
    value = body.get(field)
    if not isinstance(value, str) or not value:
        raise Refused(400, "request", field)
    return bytes_of(value)


def text_in(body: dict[str, Any], field: str, default: str = "") -> str:
    """Read a text."""
    value = body.get(field, default)
    if not isinstance(value, str):
        raise Refused(400, "request", field)
    return value


def number_in(body: dict[str, Any], field: str, default: int, most: int) -> int:
    """Read a whole number from 0 on; a larger one is made the most that is allowed."""
    value = body.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused(400, "request", field)
    return min(value, most)


def names_in(body: dict[str, Any], field: str, most: int) -> list[bytes]:
    """Read a list of names or IDs, at least one."""
    values = body.get(field)
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        raise Refused(400, "request", field)
    if not all(isinstance(value, str) for value in values):
        raise Refused(400, "request", field)
    return [bytes_of(value) for value in values]
