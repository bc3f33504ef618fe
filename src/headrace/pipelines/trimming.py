"""Trimming a stream once it is archived: which entries may be removed.

    entries   ├──────────────────────────────────────────┤
    archived  ├──────────────────────────┤                    up to the mark of the checkpoint
    a group   ├───────────────┤ pending …                     up to its first pending entry, or its last delivered one
    goes      ├───────────────┤                               the least of them

Groups only go forward, unless somebody sets them back, so that this limit stays safe until XTRIM has run. When a server
is restarted meanwhile, the job waits for it and asks again.
"""

from headrace.core.stream_id import StreamID
from headrace.pipelines.layout import shown_key
from headrace.spark.connecting import connect
from headrace.spark.identity import same_streams
from headrace.spark.offsets import Mark, StreamKey
from headrace.spark.servers import Server


def trim_archived(
    url: str, marks: dict[StreamKey, Mark], *, beyond_groups: bool, ignored_group: bytes | None = None
) -> dict[str, int]:
    """Remove the entries up to the marks, and return how many went from each stream."""
    connections = connect(url, patient=True)
    removed: dict[str, int] = {}
    try:
        for (place, key), mark in marks.items():
            server, transport = connections.server(place), connections.transport(place)
            state = transport.describe([key])[0]
            if state is None or state.first_id is None or not all(same_streams(transport, [(key, mark, state)])):
                continue  # gone, empty, or another stream by now
            keep = mark.id.successor()
            if not beyond_groups:
                keep = min([keep, *_needed_by_groups(server, key, ignored_group)])
            if state.first_id < keep:
                count = server.ask("XTRIM", key, "MINID", "=", bytes(keep), key=key)
                removed[shown_key(key)] = removed.get(shown_key(key), 0) + int(count)
    finally:
        connections.close()
    return removed


def _needed_by_groups(server: Server, key: bytes, ignored: bytes | None) -> list[StreamID]:
    """Return for each group the first ID that it has still to read or to acknowledge."""
    needed = []
    for group in server.groups(key):
        if group[b"name"] == ignored:
            continue
        first = StreamID.parse(group[b"last-delivered-id"]).successor()
        if group[b"pending"]:
            count, lowest, *_ = server.ask("XPENDING", key, group[b"name"], key=key)
            if count:
                first = min(first, StreamID.parse(lowest))
        needed.append(first)
    return needed
