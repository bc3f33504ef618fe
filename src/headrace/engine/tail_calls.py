"""Scripts that end in `return redis.call(…)`, and errors that name the line of it.

Lua forgets a function that returns what another one returns, as soon as that one runs. Redis's `redis.call` is a
function of C, which is not forgotten so; ours is one of Lua. So the value is put in parentheses, which changes nothing
else: it is one value, and now the calling function stays until it is there.

    return redis.call('GET', KEYS[1])   ──►   return (redis.call('GET', KEYS[1]))
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    rb"--\[(?P<comment>=*)\[.*?\](?P=comment)\]|--[^\n]*"
    rb"|\[(?P<long>=*)\[.*?\](?P=long)\]"
    rb"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    rb"|[A-Za-z_]\w*|\s+|.",
    re.DOTALL,
)
_ALIAS: Final = re.compile(rb"\blocal\s+([A-Za-z_]\w*)\s*=\s*redis\s*\.\s*call\b")
_ENDS: Final = frozenset((b"end", b"else", b"elseif", b"until", b";", b""))
_OPENING: Final = frozenset((b"(", b"[", b"{"))
_CLOSING: Final = frozenset((b")", b"]", b"}"))


def keep_callers(source: bytes) -> bytes:
    """Put the calls of commands that a text of Lua returns in parentheses; what is no Lua stays what it is."""
    if b"return" not in source or b"redis" not in source:
        return source
    names = {(b"redis", b".", b"call"), *((name,) for name in _ALIAS.findall(source))}
    tokens = [
        (match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(source)
        if not match.group().isspace() and not match.group().startswith(b"--")
    ]
    tokens.append((b"", len(source), len(source)))
    pieces, at = [], 0
    for index, (word, _, behind) in enumerate(tokens):
        if word == b"return":
            end = _end_of_call(tokens, index + 1, names)
            if end is not None:
                pieces += [source[at:behind], b"(", source[behind:end], b")"]
                at = end
    return b"".join([*pieces, source[at:]])


def _end_of_call(tokens: list[tuple[bytes, int, int]], index: int, names: set[tuple[bytes, ...]]) -> int | None:
    """Find where the call ends that begins at a token, if it is one of a command and all that is returned."""
    for name in names:
        after = index + len(name)
        if tuple(word for word, _, _ in tokens[index:after]) != name or tokens[after : after + 1] == []:
            continue
        if tokens[after][0] != b"(":
            continue
        depth = 0
        while after < len(tokens):
            word, _, behind = tokens[after]
            depth += (word in _OPENING) - (word in _CLOSING)
            after += 1
            if depth == 0:
                return behind if after < len(tokens) and tokens[after][0] in _ENDS else None
    return None
