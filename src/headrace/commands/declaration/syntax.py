"""The arguments of a command, read from its syntax: what COMMAND DOCS tells and redis-cli shows while one types.

    xadd key [NOMKSTREAM] [IDMPAUTO producer | IDMP producer id] *|id field value [field value ...]

A word in capitals, or a sign, is a token that stands for itself; another word is a value. A token takes the value right
behind it. `[…]` may be left out; `[… ...]` repeats what stands in front of it; `a|b` is one of these words, and a bar
between spaces parts whole alternatives, of which `<…>` takes one.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[\[\]<>]|[^\s\[\]<>]+")
_TOKEN: Final = re.compile(r"[A-Z][A-Z0-9-]*|[=~*$]")

_SIGNS: Final = {"=": "equal", "~": "approximately", "*": "auto-id", "$": "last-id"}

_KEYS: Final = frozenset({"key", "newkey", "source", "destination", "destkey", "sourcekey"})
_INTEGERS: Final = frozenset(
    {
        "bit", "bytes", "client-id", "count", "cursor", "db", "decrement", "destination-db", "entries-added",
        "entries-read", "frequency", "increment", "index", "index1", "index2", "len", "limit", "milliseconds",
        "min-idle-time", "ms", "num-matches", "numids", "numkeys", "numreplicas", "offset", "port", "protover", "rank",
        "samples", "seconds", "timeout", "ttl", "version",
    }
)  # fmt: skip
_DOUBLES: Final = frozenset({"height", "latitude", "longitude", "radius", "width"})
_TIMES: Final = frozenset({"unix-ms", "unix-time-milliseconds", "unix-time-seconds"})


class Argument(NamedTuple):
    """One argument, or a group of them; `kind` is one of Redis's types of argument."""

    name: str
    kind: str
    token: str | None = None
    optional: bool = False
    multiple: bool = False
    multiple_token: bool = False
    inner: tuple["Argument", ...] = ()


def arguments_of(syntax: str) -> tuple[Argument, ...]:
    """Read the arguments of a command from its syntax, which begins with its name."""
    _, _, text = syntax.partition(" ")
    return _alternatives(_WORD.finditer(text))


def _alternatives(words: Iterator[re.Match[str]]) -> tuple[Argument, ...]:
    """Read up to the closing bracket, or the end: a sequence, or one argument that is one of several sequences."""
    sequences: list[list[Argument]] = [[]]
    for match in takewhile(lambda match: match[0] not in "]>", words):
        word = match[0]
        if word == "|":
            sequences.append([])
        elif word == "[":
            _add_optional(sequences[-1], _alternatives(words))
        elif word == "<":
            sequences[-1] += _alternatives(words)
        else:
            _add_word(sequences[-1], word)
    if len(sequences) == 1:
        return tuple(sequences[0])
    choices = tuple(_as_one(tuple(sequence)) for sequence in sequences)
    return (Argument(choices[0].name, "oneof", inner=choices),)


def _add_word(sequence: list[Argument], word: str) -> None:
    if "|" in word:
        choices = tuple(map(_single, word.split("|")))
        named = next((choice.name for choice in choices if choice.kind != "pure-token"), choices[0].name)
        added = Argument(named, "oneof", inner=choices)
    else:
        added = _single(word)
    before = sequence[-1] if sequence else None
    if before is not None and before.kind == "pure-token" and not before.optional and added.kind != "pure-token":
        sequence[-1] = added._replace(token=before.token)
    else:
        sequence.append(added)


def _add_optional(sequence: list[Argument], group: tuple[Argument, ...]) -> None:
    if group[-1].name == "...":
        _repeat(sequence, group[:-1])
    else:
        sequence.append(_as_one(group)._replace(optional=True))


def _repeat(sequence: list[Argument], group: tuple[Argument, ...]) -> None:
    """Let what stands at the end of the sequence stand there again; where it does not, it may be left out, too."""
    size = len(group)
    repeated = tuple(sequence[-size:])
    if [argument.name for argument in repeated] != [argument.name for argument in group]:
        sequence.append(_as_one(group)._replace(optional=True, multiple=True))
        return
    multiple_token = size == 1 and group[0].token is not None
    sequence[-size:] = [_as_one(repeated)._replace(multiple=True, multiple_token=multiple_token)]


def _as_one(group: tuple[Argument, ...]) -> Argument:
    return group[0] if len(group) == 1 else Argument(group[0].name, "block", inner=group)


def _single(word: str) -> Argument:
    if _TOKEN.fullmatch(word):
        return Argument(_SIGNS.get(word, word.lower()), "pure-token", token=word)
    if word in _KEYS:
        return Argument(word, "key")
    if word in _INTEGERS:
        return Argument(word, "integer")
    if word in _DOUBLES:
        return Argument(word, "double")
    if word in _TIMES:
        return Argument(word, "unix-time")
    return Argument(word, "pattern" if word == "pattern" else "string")
