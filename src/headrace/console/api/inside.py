"""How a stream lies in memory: its nodes, the rax that leads to them, each byte of a node, pending lists.

    nodes of a Headrace     HEADRACE NODES from an ID on, a page of them: any stream, however long
    nodes of another        DUMP, up to 8 MB: nothing else shows them
    a node                  its listpack, cut into parts by `formats.anatomy`; a `Stream` has checked it before
    on disk or in memory    what is on disk are the first entries of a stream, and HEADRACE MEMORY says how many

The rax is built of the master IDs that are shown. Where those are all, it is the tree of the stream; else the part
of that tree that leads to them.
"""

from typing import TYPE_CHECKING, Any, Final

from headrace.console.api.entries import id_in
from headrace.console.api.questions import name_in, text_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session
from headrace.core.errors import HeadraceError, InvalidStreamID
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.anatomy.node import Part, cut_listpack
from headrace.formats.anatomy.overview import Overview, StreamNode
from headrace.formats.stream_value import restore_stream

if TYPE_CHECKING:
    from headrace.core.rax_drawing import NodeShape

_MOST_NODES: Final = 64
_PAGE_BYTES: Final = 1 << 18
_MOST_DUMP: Final = 8 << 20
_MOST_FIELDS: Final = 12  # of a master entry, in the list of nodes
_MOST_PARTS: Final = 2_000
_MOST_BYTES: Final = 64  # of one part
_MOST_VALUE: Final = 200
_MOST_GROUPS: Final = 20
_MOST_RECORDS: Final = 12
_MOST_CONSUMERS: Final = 12


async def read_inside(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read a page of nodes with their rax, and what groups keep."""
    key = name_in(body, "stream")
    start = id_in(body, "start", "-")
    facts = await _facts(session, key)
    stream, following = await _nodes(session, key, start)
    overview = Overview(stream)
    nodes = overview.nodes[:_MOST_NODES]
    if len(overview.nodes) > _MOST_NODES:
        following = str(overview.nodes[_MOST_NODES].master)
    kept = Overview(_stream_of((node.master, node.listpack) for node in nodes))
    cold = await _cold_nodes(session, key, nodes)
    return {
        "length": facts["length"],
        "nodes": facts.get("radix-tree-keys"),
        "rax_nodes": facts.get("radix-tree-nodes"),
        "whole": start == "-" and following is None,
        "next": following,
        "tree": _tree(kept.tree["head"], b"") if nodes else None,
        "shown_rax_nodes": kept.tree["numnodes"],
        "rows": [_row(node, is_cold) for node, is_cold in zip(nodes, cold, strict=True)],
        "groups": await _groups(session, key),
    }


async def read_node(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read one node byte by byte."""
    key, wanted = name_in(body, "stream"), _id(text_in(body, "master"))
    await _facts(session, key)
    stream, _ = await _nodes(session, key, str(wanted), most=1)
    node = next((node for node in Overview(stream).nodes if node.master == wanted), None)
    if node is None:
        raise Refused(404, "no_node", text_in(body, "master"))
    parts = cut_listpack(node.listpack, node.master)
    return {
        **_row(node, is_cold=False),
        "parts": [_shown(part) for part in parts[:_MOST_PARTS]],
        "more": max(len(parts) - _MOST_PARTS, 0),
    }


def _id(text: str) -> StreamID:
    try:
        return StreamID.parse(text)
    except InvalidStreamID:
        raise Refused(400, "id", text) from None


async def _facts(session: Session, key: bytes) -> dict[str, Any]:
    try:
        return pairs(await session.link.ask("XINFO", "STREAM", key))
    except Refused as refusal:
        if refusal.text.startswith("no such key"):
            raise Refused(404, "no_stream") from None
        raise


# --- nodes -------------------------------------------------------------------------------------------------------


async def _nodes(session: Session, key: bytes, start: str, most: int = _PAGE_BYTES) -> tuple[Stream, str | None]:
    """Return nodes from an ID on, and from where more follow."""
    try:
        if session.product.get("headrace"):
            following, found = await session.link.ask("HEADRACE", "NODES", key, start, "+", "COUNT", most)
            nodes = ((StreamID.from_key(master), listpack) for master, listpack in found)
            return _stream_of(nodes), following and following.decode()
        stream = await _restored(session, key)
        if start == "-":
            return stream, None
        after = _id(start)
        return _stream_of((master, listpack) for master, listpack in stream.nodes() if master >= after), None
    except HeadraceError as error:
        if isinstance(error, Refused):
            raise
        raise Refused(400, "unreadable", str(error)) from None


async def _restored(session: Session, key: bytes) -> Stream:
    size = await session.link.ask("MEMORY", "USAGE", key)
    if isinstance(size, int) and size > _MOST_DUMP:
        raise Refused(400, "too_large_inside")
    payload = await session.link.ask("DUMP", key)
    if payload is None:
        raise Refused(404, "no_stream")
    return restore_stream(payload)


def _stream_of(nodes: Any) -> Stream:
    """Have a stream check the nodes: what is cut to its bytes must be well formed."""
    stream = Stream()
    for master, listpack in nodes:
        stream.load_node(master, listpack)
    return stream


async def _cold_nodes(session: Session, key: bytes, nodes: list[StreamNode]) -> list[bool]:
    """Tell which nodes are on disk: those of the first entries, as many as the server has there."""
    if not session.product.get("headrace") or not nodes:
        return [False] * len(nodes)
    try:
        where = pairs(await session.link.ask("HEADRACE", "MEMORY", key) or [])
        before = 0
        if where.get("disk-entries"):
            parts = await session.link.ask("HEADRACE", "SPLITS", key, "-", f"({nodes[0].master}", 1)
            before = sum(part[2] for part in parts)
    except Refused:
        return [False] * len(nodes)
    cold = []
    for node in nodes:
        before += node.alive
        cold.append(before <= where.get("disk-entries", 0))
    return cold


def _row(node: StreamNode, is_cold: bool) -> dict[str, Any]:
    return {
        "master": str(node.master),
        "bytes": len(node.listpack),
        "alive": node.alive,
        "deleted": node.deleted,
        "fields": [name[:_MOST_VALUE] for name in node.fields[:_MOST_FIELDS]],
        "more_fields": max(len(node.fields) - _MOST_FIELDS, 0),
        "cold": is_cold,
    }


def _tree(node: "NodeShape", before: bytes) -> dict[str, Any]:
    """Return a node of the rax for the page; no key is longer than 16 bytes, so that this goes no deeper."""
    edges, children = node["edges"], node["children"]
    single = len(children) == 1
    return {
        "kind": node["kind"],
        "depth": len(before),
        "edges": edges.hex(),
        "id": str(StreamID.from_key(before)) if node["is_key"] else None,
        "children": [
            _tree(child, before + (edges if single else edges[place : place + 1]))
            for place, child in enumerate(children)
        ],
    }


def _shown(part: Part) -> dict[str, Any]:
    value = part.value[:_MOST_VALUE] if isinstance(part.value, bytes) else part.value
    cut = len(part.data) > _MOST_BYTES + part.tail
    data = part.data[:_MOST_BYTES] + part.data[len(part.data) - part.tail :] if cut else part.data
    return {
        "offset": part.offset,
        "size": len(part.data),
        "hex": data.hex(),
        "cut": len(part.data) - len(data),
        "head": part.head,
        "tail": part.tail,
        "encoding": part.encoding,
        "bits": part.bits,
        "value": value if not isinstance(value, int) or abs(value) < 2**53 else str(value),
        "meaning": part.meaning,
        "of": part.of,
    }


# --- what groups keep --------------------------------------------------------------------------------------------


async def _groups(session: Session, key: bytes) -> list[dict[str, Any]]:
    """Return of each group its first pending records, and how many of all of them each consumer has."""
    groups = [pairs(each) for each in (await session.link.ask("XINFO", "GROUPS", key))[:_MOST_GROUPS]]
    replies = await session.link.ask_all(
        [
            command
            for group in groups
            for command in (
                ("XPENDING", key, group["name"], "-", "+", _MOST_RECORDS),
                ("XPENDING", key, group["name"]),
            )
        ]
    )
    told = []
    for group, records, summary in zip(groups, replies[::2], replies[1::2], strict=True):
        if isinstance(records, Exception) or isinstance(summary, Exception):
            continue
        owners = sorted(([owner, int(count)] for owner, count in summary[3] or []), key=lambda each: -each[1])
        rows = [
            {"id": id, "consumer": owner, "idle_ms": idle, "deliveries": deliveries}
            for id, owner, idle, deliveries in records
        ]
        told.append(
            {
                "name": group["name"],
                "last": group["last-delivered-id"],
                "pending": group["pending"],
                "records": rows,
                "owners": owners[:_MOST_CONSUMERS],
                "more_owners": max(len(owners) - _MOST_CONSUMERS, 0),
            }
        )
    return told
