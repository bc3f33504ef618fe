"""A rax whose keys are entry IDs, drawn in hexadecimal.

     00 00 01 63 83 77 ─┬─ 66 ─ ca 00 00 00 00 00 00 00 00 ● 1526919030474-0
                        └─ 6a ─ 4e 00 00 00 00 00 00 00 00 ● 1526919031374-0

Bytes that stand together are one node of the tree; a line is a key. The bytes of the milliseconds and of the sequence
number have each their colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from headrace.core.stream_id import StreamID

if TYPE_CHECKING:
    from headrace.core.rax_drawing import NodeShape, TreeShape

_LINES: Final = (10, 3)  # shown at the beginning and at the end
_MS_BYTES: Final = 8
_STYLES: Final = ("cyan", "magenta")


def draw_tree(console: Console, tree: TreeShape, *, everything: bool) -> None:
    """Draw the tree."""
    lines = list(tree_lines(tree["head"]))
    first, last = _LINES
    if not everything and len(lines) > first + last + 1:
        hidden = len(lines) - first - last
        lines[first:-last] = [Text(f"  … {hidden:,} more keys: --all", style="dim")]
    for line in lines:
        console.print(line, soft_wrap=True)


def tree_lines(head: NodeShape) -> Iterator[Text]:
    """Give a line for each key; no key is longer than 16 bytes, so that this goes no deeper."""
    yield from _lines(head, b"", Text("  "), "  ")


def _lines(node: NodeShape, key: bytes, line: Text, below: str) -> Iterator[Text]:
    children = node["children"]
    if not children:
        line.append("● ", style="bold")
        line.append(str(StreamID.from_key(key)))
        yield line
        return
    if len(children) == 1:
        line.append_text(_bytes(node["edges"], len(key)))
        if children[0]["children"]:
            line.append("─ ", style="dim")
        yield from _lines(children[0], key + node["edges"], line, below)
        return
    below += " " * (len(line.plain) - len(below))
    for position, child in enumerate(children):
        edge = node["edges"][position : position + 1]
        is_last = position == len(children) - 1
        mark = "┬" if position == 0 else "└" if is_last else "├"
        start = line if position == 0 else Text(below)
        start.append(f"{mark}─ ", style="dim")
        start.append_text(_bytes(edge, len(key)))
        if child["children"]:
            start.append("─ ", style="dim")
        yield from _lines(child, key + edge, start, below + (" " if is_last else "│") + "  ")


def _bytes(run: bytes, depth: int) -> Text:
    text = Text()
    for position, byte in enumerate(run, depth):
        text.append(f"{byte:02x} ", style=_STYLES[position >= _MS_BYTES])
    return text
