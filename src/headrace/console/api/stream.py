"""One stream: what XINFO says, its groups, what lies beside it."""

from typing import Any, Final

from headrace.console.api.catalogue import add_oldest
from headrace.console.api.questions import name_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session

_MOST_GROUPS: Final = 200


async def read_stream(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read what is known of a stream without its entries."""
    key = name_in(body, "stream")
    try:
        facts = pairs(await session.link.ask("XINFO", "STREAM", key))
    except Refused as refusal:
        if refusal.text.startswith("no such key"):
            raise Refused(404, "no_stream") from None
        raise
    groups = [pairs(each) for each in await session.link.ask("XINFO", "GROUPS", key)]
    beside = await session.link.ask_all(
        [
            ("MEMORY", "USAGE", key),
            ("PTTL", key),
            ("XLEN", key + b":dead"),
            ("ZCARD", b"headrace:{%s}:scheduled" % key),
        ]
    )
    memory, ttl, dead, scheduled = (None if isinstance(each, Exception) else each for each in beside)
    rows = [
        {
            "stream": key,
            "name": told["name"],
            "lag": told.get("lag"),
            "pending": told["pending"],
            "consumers": told["consumers"],
            "last": told["last-delivered-id"],
            "read": told.get("entries-read"),
        }
        for told in groups[:_MOST_GROUPS]
    ]
    await add_oldest(session, rows)
    first, last = facts.get("first-entry"), facts.get("last-entry")
    return {
        "name": key,
        "length": facts["length"],
        "added": facts.get("entries-added"),
        "first": first[0] if first else None,
        "last": last[0] if last else None,
        "last_id": facts["last-generated-id"],
        "max_deleted": facts.get("max-deleted-entry-id"),
        "nodes": facts.get("radix-tree-keys"),
        "rax_nodes": facts.get("radix-tree-nodes"),
        "memory": memory,
        "ttl": ttl if ttl is not None and ttl >= 0 else None,
        "dead": dead or 0,
        "scheduled": scheduled or 0,
        "groups": rows,
        "more_groups": len(groups) > _MOST_GROUPS,
        "policy": await _policy(session, key),
        "where": await _where(session, key),
    }


async def _policy(session: Session, key: bytes) -> list[Any] | None:
    """Return the rules of the stream, as HEADRACE POLICY GET tells them; None where there is no such command."""
    if not session.product.get("headrace"):
        return None
    try:
        told = await session.link.ask("HEADRACE", "POLICY", "GET", key)
    except Refused:
        return None
    return told if isinstance(told, list) else None


async def _where(session: Session, key: bytes) -> dict[str, Any] | None:
    """Return what of it is in memory and on disk; None where the server does not know."""
    if not session.product.get("headrace"):
        return None
    try:
        return pairs(await session.link.ask("HEADRACE", "MEMORY", key))
    except Refused:
        return None
