"""`headrace inspect`: finds the stream and its node, then draws it or prints it as JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from headrace.cli.address import ServerAddress
from headrace.cli.inspect.picture import draw_stream
from headrace.cli.inspect.sources import FoundStream, from_path, from_server
from headrace.cli.showing import lossless, raw
from headrace.cli.times import END, place
from headrace.core.stream_id import StreamID
from headrace.formats.anatomy.node import Part, cut_listpack
from headrace.formats.anatomy.overview import Overview, StreamNode
from headrace.formats.anatomy.payload import cut_payload


def run_inspect(
    server: ServerAddress,
    key: str | None,
    file: Path | None,
    node: str | None,
    *,
    payload: bool,
    everything: bool,
    as_json: bool,
) -> None:
    """Draw one stream."""
    if file is not None:
        found = from_path(file, None if key is None else raw(key), server.db or 0)
    elif key is not None:
        found = from_server(raw(key), server)
    else:
        raise typer.BadParameter("Name the stream, or the file that it is in with --file.", param_hint="KEY")
    overview = Overview(found.stream)
    chosen = _chosen_node(overview, node)
    parts = _parts(found, chosen, payload=payload)
    if as_json:
        print(json.dumps(_as_json(found, overview, chosen, parts, payload=payload)))  # noqa: T201
    else:
        title = "the payload" if payload or chosen is None else f"the listpack of node {chosen.master}"
        draw_stream(Console(highlight=False), found, overview, chosen, parts, title=title, everything=everything)


def _chosen_node(overview: Overview, wanted: str | None) -> StreamNode | None:
    """Find the node that an ID is in, or would be in; the first, where none is asked for."""
    if not overview.nodes:
        return None
    if wanted is None:
        return overview.nodes[0]
    text = place(wanted)
    if text == END:
        return overview.nodes[-1]
    id = StreamID.parse(text)
    return next((node for node in reversed(overview.nodes) if node.master <= id), overview.nodes[0])


def _parts(found: FoundStream, chosen: StreamNode | None, *, payload: bool) -> list[Part]:
    if payload:
        return cut_payload(found.payload)
    return [] if chosen is None else cut_listpack(chosen.listpack, chosen.master)


def _as_json(
    found: FoundStream, overview: Overview, chosen: StreamNode | None, parts: list[Part], *, payload: bool
) -> dict[str, Any]:
    return {
        "stream": lossless(found.name),
        "from": found.place,
        **_figures(overview),
        "on_disk": asdict(found.on_disk),
        "drawn": "payload" if payload else None if chosen is None else str(chosen.master),
        "parts": [
            {
                "offset": part.offset,
                "bytes": part.data.hex(),
                "encoding": part.encoding,
                "value": lossless(part.value) if isinstance(part.value, bytes) else part.value,
                "meaning": part.meaning,
                "of": part.of,
                "encoding_bytes": part.head,
                "backlen_bytes": part.tail,
            }
            for part in parts
        ],
    }


def _figures(overview: Overview) -> dict[str, Any]:
    stream = overview.stream
    return {
        "length": len(stream),
        "first_id": str(stream.first_id) if len(stream) else None,
        "last_id": str(stream.last_id),
        "max_deleted_id": str(stream.max_deleted_id),
        "entries_added": stream.entries_added,
        "rax": {"keys": overview.tree["numele"], "nodes": overview.tree["numnodes"]},
        "nodes": [
            {
                "master": str(node.master),
                "bytes": len(node.listpack),
                "entries": node.alive,
                "deleted": node.deleted,
                "fields": [lossless(name) for name in node.fields],
            }
            for node in overview.nodes
        ],
        "groups": [
            {
                "name": lossless(group.name),
                "last_delivered_id": str(group.last_delivered_id),
                "entries_read": group.position,
                "lag": group.lag,
                "pending": group.pending_count,
                "consumers": [
                    {"name": lossless(consumer.name), "pending": len(consumer)} for consumer in group.consumer_list()
                ],
            }
            for group in stream.group_list()
        ],
    }
