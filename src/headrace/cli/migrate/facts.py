"""The content of a key, as a few facts by which two servers can be compared.

    stream      length, first and last ID, entries ever added; of each group where it is and what is pending.
                Its entries are compared page by page, see `comparing`
    others      type and a digest of the content, read in pages

Facts that Redis 7.0 does not send its followers are left out: how many entries a group has read, and consumers to which
nothing was delivered.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import redis

from headrace.cli.connecting import ask
from headrace.cli.showing import shown

Facts: TypeAlias = dict[str, str]

MISSING: Final[Facts] = {"type": "none"}
FIRST_ID: Final = "first ID"
LAST_ID: Final = "last ID"
LENGTH: Final = "length"
COMPARABLE: Final = frozenset({"string", "list", "set", "zset", "hash", "stream"})

_PAGE: Final = 1000
_CONTENT: Final = "content"


def facts_of(client: redis.Redis, keys: Sequence[bytes]) -> list[Facts]:
    """Read the facts of keys."""
    kinds = _ask_all(client, [("TYPE", key) for key in keys])
    names = [kind.decode() if isinstance(kind, bytes) else "none" for kind in kinds]
    expiries = _ask_all(client, [("PEXPIRETIME", key) for key in keys])
    pages = _ask_all(client, [_first_page(name, key) for name, key in zip(names, keys, strict=True)])
    groups = _groups_of(client, [key for name, key in zip(names, keys, strict=True) if name == "stream"])
    found = []
    for key, name, expiry, page in zip(keys, names, expiries, pages, strict=True):
        facts = {"type": name}
        if name != "none" and isinstance(expiry, int) and expiry >= 0:
            facts["expiry"] = str(expiry)
        try:
            if isinstance(page, redis.ResponseError):
                raise page
            if name == "stream":
                facts |= _stream_facts(page) | groups[key]
            elif name in COMPARABLE:
                facts[_CONTENT] = _digest(_rest(client, name, key, page))
        except redis.ResponseError as error:
            facts["error"] = str(error)  # it became something else meanwhile
        found.append(facts)
    return found


def describe_difference(old: Facts, new: Facts) -> str:
    """Say what the first difference is."""
    if new["type"] == "none":
        return f"the {old['type']} is missing on the new server"
    if old["type"] == "none":
        return f"the {new['type']} is only on the new server"
    for name in old | new:
        ours, theirs = old.get(name, "none"), new.get(name, "none")
        if ours != theirs:
            return "the content differs" if name == _CONTENT else f"{name} is {ours}, on the new server {theirs}"
    return "the content differs"


def _ask_all(client: redis.Redis, commands: Iterable[Sequence[bytes | str | int]]) -> list[Any]:
    pipeline = client.pipeline(transaction=False)
    count = 0
    for words in commands:
        ask(pipeline, *words)
        count += 1
    return list(pipeline.execute(raise_on_error=False)) if count else []


def _first_page(name: str, key: bytes) -> Sequence[bytes | str | int]:
    if name == "stream":
        return ("XINFO", "STREAM", key)
    if name == "string":
        return ("GET", key)
    return _page(name, key, 0) if name in COMPARABLE else ("TYPE", key)


def _page(name: str, key: bytes, place: int) -> Sequence[bytes | str | int]:
    """Ask for a page of a collection; `place` is a position in lists and sorted sets, and a cursor in others."""
    if name == "list":
        return ("LRANGE", key, place, place + _PAGE - 1)
    if name == "zset":
        return ("ZRANGE", key, place, place + _PAGE - 1, "WITHSCORES")
    return ("SSCAN" if name == "set" else "HSCAN", key, place, "COUNT", _PAGE)


def _rest(client: redis.Redis, name: str, key: bytes, page: Any) -> Iterable[bytes]:
    """Read a value from its first page to its end, in an order that is the same on every server."""
    if name == "string":
        return [page or b""]
    if name in {"list", "zset"}:
        items: list[bytes] = list(page)
        pairs = name == "zset"
        width = _PAGE * (1 + pairs)
        place = _PAGE
        while len(page) == width:
            page = ask(client, *_page(name, key, place))
            items += page
            place += _PAGE
        # Redis 7.0 writes 0.33333333333333331, later ones 0.3333333333333333: the same number.
        return [float(text).hex().encode() if at % 2 else text for at, text in enumerate(items)] if pairs else items
    # A scan may give an item twice.
    cursor, content = page
    found: dict[bytes, bytes] = dict(content) if name == "hash" else dict.fromkeys(content, b"")
    while cursor:
        cursor, content = ask(client, *_page(name, key, cursor))
        found |= dict(content) if name == "hash" else dict.fromkeys(content, b"")
    return [text for pair in sorted(found.items()) for text in pair]


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _stream_facts(reply: list[Any]) -> Facts:
    told = _as_dict(reply)
    first = told[b"first-entry"]
    return {
        LENGTH: str(told[b"length"]),
        FIRST_ID: first[0].decode() if first else "none",
        LAST_ID: told[b"last-generated-id"].decode(),
        "entries added": str(told.get(b"entries-added", "unknown")),
    }


def _groups_of(client: redis.Redis, streams: list[bytes]) -> dict[bytes, Facts]:
    """Read the facts about the groups of streams, all in two requests: 500 streams had let writes wait for a second."""
    facts: dict[bytes, Facts] = {key: {} for key in streams}
    groups = [
        (key, _as_dict(group))
        for key, reply in zip(streams, _ask_all(client, [("XINFO", "GROUPS", key) for key in streams]), strict=True)
        for group in (() if isinstance(reply, redis.ResponseError) else reply)
    ]
    summaries = _ask_all(client, [("XPENDING", key, group[b"name"]) for key, group in groups])
    for (key, group), summary in zip(groups, summaries, strict=True):
        name = f"group {shown(group[b'name'])}"
        facts[key] |= {
            f"{name}: last delivered ID": group[b"last-delivered-id"].decode(),
            f"{name}: number of pending entries": str(group[b"pending"]),
            f"{name}: pending entries": str(summary),
        }
    return facts


def _as_dict(reply: list[Any]) -> dict[bytes, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))
