"""Bytes in JSON and back, and commands as a person types them.

Names and values of streams are any bytes. In JSON they are strings that lose nothing: what is not UTF-8 becomes lone
surrogates, which JSON can carry, and which become the same bytes here.
"""

import json
import re
from typing import Any, Final

_PLAIN: Final = re.compile(rb"[!#-&(-\[\]-~]+")


def text_of(data: bytes) -> str:
    """Return bytes as a string that `bytes_of` makes the same bytes of."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the bytes of a string that came from the page."""
    return text.encode("utf-8", "surrogateescape")


def _told(value: object) -> object:
    if isinstance(value, bytes):
        return text_of(value)
    raise TypeError(f"{type(value).__name__} is not for the page")


def to_json(value: Any) -> bytes:
    """Write JSON; bytes become strings."""
    return json.dumps(value, default=_told, separators=(",", ":")).encode()


def command_line(argv: list[bytes]) -> str:
    """Write a command so that redis-cli sends the same."""
    return " ".join(_word(each) for each in argv)


def _word(word: bytes) -> str:
    if _PLAIN.fullmatch(word):
        return word.decode()
    shown = "".join(_escaped(byte) for byte in word)
    return f'"{shown}"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return "\\" + character
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if named is not None:
        return named
    return character if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
