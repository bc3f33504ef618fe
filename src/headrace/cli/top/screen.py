"""How a reading looks: a line for the server, then a table of streams, with their groups and consumers below them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headrace.cli.showing import duration, number, plural, rate, raw, shown, size
from headrace.cli.top.reading import MOST_STREAMS, ConsumerReading, GroupReading, ServerReading, StreamReading

SORTS: Final[dict[str, Callable[[StreamReading], Any]]] = {
    "name": lambda stream: stream.name,
    "length": lambda stream: -stream.length,
    "in": lambda stream: -(stream.in_per_s or 0),
    "out": lambda stream: -(stream.out_per_s or 0),
    "groups": lambda stream: -len(stream.groups),
    "lag": lambda stream: -(stream.lag or 0),
    "pending": lambda stream: -stream.pending,
    "oldest": lambda stream: -(stream.oldest_ms or 0),
    "dead": lambda stream: -stream.dead,
    "disk": lambda stream: -stream.disk_bytes,
    "next": lambda stream: math.inf if stream.next_due_ms is None else stream.next_due_ms,
}
_Row: TypeAlias = tuple[Text, ...]

_COLUMNS: Final = ("length", "in/s", "out/s", "groups", "lag", "pending", "oldest", "dead", "next")
_ON_DISK: Final = "disk"  # a column only where something is there
_LEFT_OUT_FIRST: Final = ("groups", "next", "disk", "dead", "in/s", "length", "oldest", "out/s")  # on a narrow terminal
_NARROWEST_NAME: Final = 16
_GAP: Final = 2  # behind each column
_NOTHING_BESIDE: Final = (Text(), Text(), Text())  # dead letters, schedules and files are of the stream
_LINES_AROUND: Final = 5  # that the table shares the screen with
_LATE_MS: Final = 60_000  # a pending entry that waits for so long is marked
_HINT: Final = "q leave  s sort  r reverse  g groups  c consumers  ↑↓ scroll"
_SHORT_HINT: Final = "q s r g c ↑↓"  # which fits beside how many lines there are


@dataclass
class View:
    """The choices of the person at the keys."""

    sort: str = "name"
    backwards: bool = False
    groups: bool = True
    consumers: bool = True
    top_row: int = 0

    def press(self, key: str, page: int) -> bool:
        """Take a key; return False when the person wants to leave."""
        if key in {"q", "Q", "\x03", "\x04"}:
            return False
        if key == "s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key == "r":
            self.backwards = not self.backwards
        elif key == "g":
            self.groups = not self.groups
        elif key == "c":
            self.consumers = not self.consumers
        else:
            steps = {"up": -1, "down": 1, "k": -1, "j": 1, "page up": -page, "page down": page, "home": -(10**9)}
            self.top_row = max(0, self.top_row + steps.get(key, 0))
        return True


def screen(reading: ServerReading, view: View, width: int, height: int | None, trouble: str = "") -> Group:
    """Draw a reading; with a height, the part of it that the view has scrolled to, and the keys.

    Columns that have no room are left out, those that say least first, and never the one that is sorted by.
    """
    now_ms = int(reading.taken * 1000)
    columns = (*_COLUMNS, _ON_DISK) if reading.segments else _COLUMNS
    rows = [row for stream in _sorted(reading, view) for row in _rows(stream, view, now_ms)]
    room = len(rows) if height is None else max(1, height - _LINES_AROUND)
    view.top_row = min(view.top_row, max(0, len(rows) - room))
    shown_rows = rows[view.top_row : view.top_row + room]
    chosen, left = _columns_that_fit(columns, rows, view, width)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0), expand=height is not None)
    table.add_column(
        _heading("stream", "name", view),
        ratio=1,
        no_wrap=True,
        overflow="ellipsis",
        min_width=_NARROWEST_NAME,
        max_width=left,
    )
    for position in chosen:
        table.add_column(_heading(columns[position], _sort_of(columns[position]), view), justify="right", no_wrap=True)
    for name, *cells in shown_rows:
        table.add_row(name, *(cells[position] for position in chosen))
    title = _title(reading)
    title.no_wrap = height is not None
    parts: list[Any] = [title, Text(), table]
    if not rows:
        parts.append(Text("there are no streams yet", style="dim"))
    if reading.more_streams:
        parts.append(Text(f"only the first {MOST_STREAMS:,} streams are shown: choose with --match", style="yellow"))
    if height is not None:
        hidden = len(rows) - room
        more = f"   {plural(hidden, 'line')} more" if hidden > 0 else ""
        hint = _HINT if len(_HINT + more) <= width else _SHORT_HINT
        parts += [Text(), Text(trouble, style="red") if trouble else Text(hint + more, style="dim")]
    return Group(*parts)


def _columns_that_fit(columns: tuple[str, ...], rows: list[_Row], view: View, width: int) -> tuple[list[int], int]:
    """Return the positions of the columns for which there is room beside the name, and how much the name has then."""
    widths = [
        max(_heading(name, _sort_of(name), view).cell_len, *(row[position].cell_len for row in rows), 0) + _GAP
        for position, name in enumerate(columns, 1)
    ]
    chosen = list(range(len(columns)))
    left = width - sum(widths)
    for name in _LEFT_OUT_FIRST:
        if left >= _NARROWEST_NAME:
            break
        if name in columns and _sort_of(name) != view.sort:
            position = columns.index(name)
            chosen.remove(position)
            left += widths[position]
    return chosen, max(left, _NARROWEST_NAME)


def _sort_of(column: str) -> str:
    return column.removesuffix("/s")


def _title(reading: ServerReading) -> Text:
    entries = sum(stream.length for stream in reading.streams)
    facts = (
        reading.version,
        reading.server,
        f"up {duration(reading.uptime_s * 1000)}",
        f"{plural(len(reading.streams), 'stream')}, {plural(entries, 'entry', 'entries')}",
        f"{number(reading.commands_per_s)} commands/s",
        plural(reading.clients, "client"),
        size(reading.memory_bytes),
        *([f"{size(reading.disk_bytes)} on disk in {plural(reading.segments, 'segment')}"] if reading.segments else []),
    )
    return Text.assemble((facts[0], "bold"), *(f" · {fact}" for fact in facts[1:]), overflow="ellipsis")


def _heading(text: str, sort: str, view: View) -> Text:
    return Text(text + ("▲" if view.backwards else "▼"), style="reverse") if view.sort == sort else Text(text)


def _sorted(reading: ServerReading, view: View) -> list[StreamReading]:
    return sorted(reading.streams, key=SORTS[view.sort], reverse=view.backwards)


def _rows(stream: StreamReading, view: View, now_ms: int) -> list[_Row]:
    rows: list[_Row] = [
        (
            Text(shown(raw(stream.name)), style="bold"),
            Text(number(stream.length)),
            _busy(stream.in_per_s),
            _busy(stream.out_per_s),
            Text(number(len(stream.groups) or None)),
            _behind(stream.lag),
            _waiting(stream.pending),
            _oldest(stream.oldest_ms, 1),
            Text(number(stream.dead or None), style="red"),
            _next_due(stream.next_due_ms, now_ms),
            Text(size(stream.disk_bytes or None)),
        )
    ]
    if view.groups:
        for position, group in enumerate(stream.groups):
            rows += _group_rows(group, view, is_last=position == len(stream.groups) - 1)
    return rows


def _group_rows(group: GroupReading, view: View, *, is_last: bool) -> list[_Row]:
    oldest = group.oldest_pending or {}
    lag = Text("?", style="dim") if group.lag is None else _behind(group.lag)
    rows: list[_Row] = [
        (
            Text.assemble((" └ " if is_last else " ├ ", "dim"), (shown(raw(group.name)), "cyan")),
            Text(),
            Text(),
            _busy(group.out_per_s),
            Text(),
            lag,
            _waiting(group.pending),
            _oldest(oldest.get("idle_ms"), oldest.get("deliveries", 1)),
            *_NOTHING_BESIDE,
        )
    ]
    if view.consumers:
        rows += [_consumer_row(each, "   " if is_last else " │ ") for each in group.consumers]
    return rows


def _consumer_row(consumer: ConsumerReading, line: str) -> _Row:
    name = Text.assemble(
        (line, "dim"), "  ", shown(raw(consumer.name)), (f"  idle {duration(consumer.idle_ms)}", "dim")
    )
    return (name, *(Text() for _ in range(5)), _waiting(consumer.pending), Text(), *_NOTHING_BESIDE)


def _busy(per_s: float | None) -> Text:
    return Text(rate(per_s), style="green" if per_s else "dim")


def _behind(lag: int | None) -> Text:
    return Text(number(lag), style="yellow" if lag else "dim")


def _waiting(pending: int) -> Text:
    return Text(number(pending), style="" if pending else "dim")


def _next_due(due_ms: int | None, now_ms: int) -> Text:
    """Write in how long the next scheduled message is due; one that is late is marked."""
    if due_ms is None:
        return Text()
    wait = due_ms - now_ms
    return Text(duration(wait)) if wait >= 0 else Text(f"{duration(-wait)} late", style="red")


def _oldest(idle_ms: int | None, deliveries: int) -> Text:
    style = "red" if idle_ms is not None and idle_ms >= _LATE_MS else ""
    return Text(duration(idle_ms) + (f" ×{deliveries}" if deliveries > 1 else ""), style=style)
