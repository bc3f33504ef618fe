r"""Redis's glob patterns, as KEYS, SCAN and CONFIG GET take them.

    *        any bytes, or none
    ?        any one byte
    [abc]    one of these; [a-z] one of a range, either end first; [^…] any but these; a class left open ends with the
             pattern, and in it as outside a backslash takes the next byte as it is
    \x       x itself

A pattern becomes a regular expression once. What stands between two stars has a fixed length, so the first place where
it fits is as good as any later one: each is an atomic group, and no pattern makes a match take more than the product of
the two lengths.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

Matcher = Callable[[bytes], bool]

_STAR: Final = None
_ANY_BYTE: Final = frozenset(range(256))
_SPECIAL: Final = re.compile(rb"[*?\[\\]")


@lru_cache(maxsize=256)
def matcher(pattern: bytes, *, ignore_case: bool = False) -> Matcher:
    """Return the function that tells whether a text matches, all of it."""
    if ignore_case:
        matches = matcher(pattern.lower())
        return lambda text: matches(text.lower())
    if pattern == b"*":
        return lambda _: True
    if pattern and not pattern.strip(b"*"):
        return bool  # Redis lets one star match the empty text, but not several.
    if not _SPECIAL.search(pattern):
        return pattern.__eq__
    if pattern.endswith(b"*") and not _SPECIAL.search(pattern, 0, len(pattern) - 1):
        prefix = pattern[:-1]
        return lambda text: text.startswith(prefix)
    expression = re.compile(_translate(pattern), re.DOTALL)
    return lambda text: expression.fullmatch(text) is not None


def _translate(pattern: bytes) -> bytes:
    """Write the pattern as a regular expression for `fullmatch`."""
    segments: list[list[bytes]] = [[]]
    for accepted in _tokens(pattern):
        if accepted is _STAR:
            segments.append([])
        else:
            segments[-1].append(_one_of(accepted))
    first, *others = (b"".join(segment) for segment in segments)
    if not others:
        return first
    *middle, last = others
    return first + b"".join(b"(?>.*?%s)" % segment for segment in middle if segment) + b".*" + last


def _one_of(accepted: frozenset[int]) -> bytes:
    """Write an expression for one byte out of a set."""
    if accepted == _ANY_BYTE:
        return b"."
    if not accepted:
        return b"(?!)"
    return b"[%s]" % b"".join(b"\\x%02x" % byte for byte in sorted(accepted))


def _tokens(pattern: bytes) -> list[frozenset[int] | None]:
    """Read the pattern: for each byte that it wants, which ones will do; None for a star."""
    tokens: list[frozenset[int] | None] = []
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        if byte == b"*":
            tokens.append(_STAR)
        elif byte == b"?":
            tokens.append(_ANY_BYTE)
        elif byte == b"[":
            accepted, at = _read_class(pattern, at + 1)
            tokens.append(accepted)
        else:
            if byte == b"\\" and at + 1 < len(pattern):
                at += 1
            tokens.append(frozenset(pattern[at : at + 1]))
        at += 1
    return tokens


def _read_class(pattern: bytes, at: int) -> tuple[frozenset[int], int]:
    """Read a class behind its bracket: the bytes that it accepts, and where its last byte stands."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    listed: set[int] = set()
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            at += 1
            listed.add(pattern[at])
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            listed.update(range(low, high + 1))
            at += 2
        else:
            listed.add(pattern[at])
        at += 1
    return (_ANY_BYTE - listed if negated else frozenset(listed)), min(at, len(pattern) - 1)
