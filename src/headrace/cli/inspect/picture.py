"""The drawing of a stream for the terminal.

    the stream      its counters in a few lines
    its rax         bytes of master IDs from left to right, as `core.rax_drawing` reads a tree
    its nodes       one line each
    its groups      one line each
    the bytes       one line a part: where it stands, its bytes, how they are encoded, what they mean

Colours say what a byte is for: the encoding, the data, the backlen.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.inspect.sources import FoundStream, OnDisk
from headrace.cli.inspect.tree import draw_tree
from headrace.cli.showing import entries, number, padded, plural, shown, size
from headrace.cli.times import written
from headrace.core.stream_id import StreamID
from headrace.formats.anatomy.node import MASTER, Part
from headrace.formats.anatomy.overview import Overview, StreamNode

HEAD_STYLE: Final = "bright_yellow"
DATA_STYLE: Final = "bright_green"
TAIL_STYLE: Final = "bright_blue"
PLAIN_STYLE: Final = "cyan"

_PER_LINE: Final = 8  # bytes
_MOST_BYTES: Final = 64  # of one part, unless everything is to be shown
_MOST_VALUE: Final = 18
_ENTRIES: Final = (3, 1)  # shown of a node: at its beginning, and at its end
_NODES: Final = (8, 3)
_BAR: Final = 12
_RULE: Final = 80  # the width of a heading in a listpack

_ENCODINGS: Final = {
    "uint7": "0xxxxxxx                    an integer from 0 to 127, in one byte",
    "str6": "10llllll data               a string of up to 63 bytes",
    "int13": "110xxxxx xxxxxxxx           an integer of 13 bits, signed",
    "str12": "1110llll llllllll data      a string of up to 4095 bytes",
    "str32": "11110000 length:u32 data    a longer string",
    "int16": "11110001 + 2 bytes          an integer, signed, low byte first",
    "int24": "11110010 + 3 bytes          an integer, signed, low byte first",
    "int32": "11110011 + 4 bytes          an integer, signed, low byte first",
    "int64": "11110100 + 8 bytes          an integer, signed, low byte first",
    "len6": "00llllll                    a length or number up to 63",
    "len14": "01llllll llllllll           a length or number up to 16383, high byte first",
    "len32": "10000000 + 4 bytes          a length or number, high byte first",
    "len64": "10000001 + 8 bytes          a length or number, high byte first",
    "string": "length data                 text behind its length",
    "integer": "110000ss + 1, 2 or 4 bytes  text that is an integer, stored as that",
    "lzf": "11000011 length length data text that is compressed",
    "ms": "8 bytes                     milliseconds since 1970, low byte first",
    "id": "16 bytes                    an entry ID: ms, then seq, high byte first",
}


def draw_stream(
    console: Console,
    found: FoundStream,
    overview: Overview,
    chosen: StreamNode | None,
    parts: Sequence[Part],
    *,
    title: str,
    everything: bool,
) -> None:
    """Draw all of it."""
    _draw_counters(console, found, overview)
    if overview.nodes:
        _heading(
            console,
            "the rax",
            f"{plural(overview.tree['numele'], 'key')}, the master IDs of the nodes, in "
            f"{plural(overview.tree['numnodes'], 'node')} of its own",
        )
        draw_tree(console, overview.tree, everything=everything)
        _heading(console, "the nodes", "a listpack each; an entry's ID is its distance from the master ID")
        _draw_nodes(console, overview.nodes, chosen, everything=everything)
    if overview.stream.group_list():
        _heading(console, "the groups", "how far each has read, and what it has not acknowledged")
        _draw_groups(console, overview)
    if parts:
        _heading(console, title, plural(sum(len(part.data) for part in parts), "byte"))
        draw_parts(console, parts, everything=everything)


def _heading(console: Console, name: str, more: str) -> None:
    console.print()
    console.print(Text.assemble((name, "bold"), ("  " + more if more else "", "dim")), soft_wrap=True)
    console.print()


def _on_disk(part: OnDisk) -> str:
    where = f"in {plural(part.parts, 'part')} of segments"
    return f"{entries(part.entries)} in {plural(part.nodes, 'node')}, {size(part.bytes)}, {where}; memory has the rest"


def _draw_counters(console: Console, found: FoundStream, overview: Overview) -> None:
    stream = overview.stream
    console.print(Text.assemble((shown(found.name), "bold"), f", a stream {found.place}"), soft_wrap=True)
    console.print()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    dead = f", {number(overview.deleted)} deleted that still take room" if overview.deleted else ""
    table.add_row("entries", f"{number(len(stream))}{dead}; {number(stream.entries_added)} were ever added")
    if len(stream):
        table.add_row("from", _dated(stream.first_id))
    table.add_row("to", _dated(stream.last_id))
    if found.on_disk.nodes:
        table.add_row("on disk", _on_disk(found.on_disk))
    each = f", {overview.bytes / len(stream):.1f} bytes an entry" if len(stream) else ""
    table.add_row("stored in", f"{plural(len(overview.nodes), 'node')}, {size(overview.bytes)}{each}")
    console.print(table)


def _dated(id: StreamID) -> str:
    return f"{id}   {written(id.ms)}".rstrip()


def _kept(items: Sequence[StreamNode], everything: bool, first: int, last: int) -> tuple[int, int]:
    """Return where the nodes that are left out begin and end; both at the end, where that would save nothing."""
    if everything or len(items) <= first + last + 1:
        return len(items), len(items)
    return first, len(items) - last


def _draw_nodes(console: Console, nodes: Sequence[StreamNode], chosen: StreamNode | None, *, everything: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("master ID", no_wrap=True, min_width=max(len(str(node.master)) for node in nodes))
    for name in ("entries", "deleted", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("fields of the master", overflow="ellipsis", no_wrap=True)
    largest = max(len(node.listpack) for node in nodes)
    gap_start, gap_end = _kept(nodes, everything, *_NODES)
    for position, node in enumerate(nodes):
        if position == gap_start:
            table.add_row("", Text(f"… {gap_end - gap_start:,} more: --all", style="dim"))
        if gap_start <= position < gap_end and node is not chosen:
            continue
        filled = max(1, round(_BAR * len(node.listpack) / largest))
        table.add_row(
            "▶" if node is chosen else "",
            Text(str(node.master), style="bold" if node is chosen else ""),
            number(node.alive),
            number(node.deleted),
            number(len(node.listpack)),
            Text("█" * filled, style="green") + Text("░" * (_BAR - filled), style="dim"),
            Text(", ".join(shown(name, 24) for name in node.fields)),
        )
    console.print(table)


def _draw_groups(console: Console, overview: Overview) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("group", overflow="fold")
    table.add_column("last delivered", no_wrap=True)
    for name in ("read", "lag", "pending"):
        table.add_column(name, justify="right")
    table.add_column("consumers: pending", overflow="fold")
    for group in overview.stream.group_list():
        consumers = (f"{shown(each.name)}: {number(len(each))}" for each in group.consumer_list())
        table.add_row(
            Text(shown(group.name)),
            str(group.last_delivered_id),
            "?" if group.position is None else number(group.position),
            "?" if group.lag is None else number(group.lag),
            number(group.pending_count),
            Text("   ".join(consumers)),
        )
    console.print(table)


# --- bytes -----------------------------------------------------------------------------------------------------------


def draw_parts(console: Console, parts: Sequence[Part], *, everything: bool) -> None:
    """Draw bytes, a line for each part, and below them what the encodings are."""
    legend = Text.assemble(
        ("encoding", HEAD_STYLE), "  ", ("data", DATA_STYLE), "  ", ("backlen", TAIL_STYLE), "   ",
        ("backlen: the size of what stands before it, for walking backwards", "dim"),
    )  # fmt: skip
    console.print(legend, soft_wrap=True)
    groups = [(of, list(members)) for of, members in groupby(parts, key=lambda part: part.of)]
    entries = [of for of, _ in groups if _is_entry(of)]
    first, last = _ENTRIES
    hidden = set() if everything or len(entries) <= first + last + 1 else set(entries[first:-last])
    told = False
    for of, members in groups:
        if of in hidden:
            if not told:
                console.print(Text(f"        … {plural(len(hidden), 'entry', 'entries')} more: --all", style="dim"))
                told = True
            continue
        if of:
            rest = min(_RULE, console.width) - len(_title(of)) - 4
            console.print(Text.assemble("── ", (_title(of), "bold"), " " + "─" * max(2, rest)))
        for part in members:
            for line in part_lines(part, everything=everything):
                console.print(line, soft_wrap=True)
    used = {part.encoding for part in parts}
    console.print()
    for encoding, what in _ENCODINGS.items():
        if encoding in used:
            console.print(Text.assemble((f"{encoding:<8}", "bold"), (what, "dim")), soft_wrap=True)


def _is_entry(of: str) -> bool:
    return "-" in of


def _title(of: str) -> str:
    if of == MASTER:
        return "the master entry"
    if _is_entry(of):
        return f"entry {of}  {written(StreamID.parse(of).ms)}".rstrip()
    return of


def part_lines(part: Part, *, everything: bool) -> Iterator[Text]:
    """Draw one part: its bytes eight to a line, the rest beside the first of them."""
    bytes_shown = len(part.data)
    cut = not everything and bytes_shown > _MOST_BYTES + part.tail + _PER_LINE
    rows = [
        _coloured(part, start, min(start + _PER_LINE, bytes_shown))
        for start in range(0, _MOST_BYTES if cut else bytes_shown, _PER_LINE)
    ]
    if cut:
        skipped = bytes_shown - _MOST_BYTES - part.tail
        rows.append(Text(f"… {skipped:,} more bytes", style="dim"))
        rows.append(_coloured(part, bytes_shown - part.tail, bytes_shown))
    for position, row in enumerate(rows):
        offset = f"{part.offset:>6}" if position == 0 else " " * 6
        line = Text.assemble((offset, "dim"), "  ", row)
        if position == 0:
            line.append(" " * (_PER_LINE * 3 - len(row.plain)))
            line.append(f" {part.encoding:<7} ", style="bold")
            line.append_text(_bits(part))
            line.append(padded(_value(part), _MOST_VALUE) + " ")
            line.append(part.meaning, style="dim")
        yield line


def _bits(part: Part) -> Text:
    """Write the first byte in bits; behind the dot stands a length, or already the value."""
    kind, _, rest = f"{part.bits:<10}".partition("·")
    if not rest:
        return Text(kind)
    return Text.assemble((f"{kind}·", HEAD_STYLE), (rest, DATA_STYLE if isinstance(part.value, int) else HEAD_STYLE))


def _coloured(part: Part, start: int, end: int) -> Text:
    """Write some bytes of a part in hexadecimal, each in the colour of what it is for."""
    text = Text()
    data_end = len(part.data) - part.tail
    for position in range(start, end):
        if not part.tail and not part.head:
            style = PLAIN_STYLE
        elif position < part.head:
            style = HEAD_STYLE
        else:
            style = DATA_STYLE if position < data_end else TAIL_STYLE
        text.append(f"{part.data[position]:02x} ", style=style)
    return text


def _value(part: Part) -> str:
    if part.value is None:
        return ""
    if isinstance(part.value, int):
        return str(part.value)
    if part.encoding == "id" or part.meaning == "master ID":
        return part.value.decode()
    return f'"{shown(part.value, _MOST_VALUE - 3)}"'
