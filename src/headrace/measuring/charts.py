"""Charts as SVG, written by hand: no library, the same bytes for the same figures.

    bars     one row a workload, one bar a server, the figure at its end
    ratios   one row a workload on a logarithmic axis: to the right of 1 the first server is better; a tick is the goal
    lines    small panels with logarithmic axes: how a cost grows with the size of something

Text is the reader's own sans-serif; the background is white, so that a dark page shows them too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from headrace.measuring.numbers import short, times

COLOURS: Final = {
    "Headrace": "#2563eb",
    "redis-server": "#c2410c",
    "fakeredis": "#a3a3a3",
    "redis-py, redis-server": "#c2410c",
    "redis-py, Headrace in process": "#7dabf8",
}
OTHER_COLOURS: Final = ("#0f766e", "#7c3aed", "#b45309", "#475569")
INK: Final = "#1f2937"
QUIET: Final = "#6b7280"
GRID: Final = "#e5e7eb"
GOOD: Final = "#2563eb"
BAD: Final = "#c2410c"

WIDTH: Final = 860
MARGIN: Final = 20
NEARLY: Final = 0.995  # what is written as 1.00× is no miss
TITLE: Final = 58
TICK_ROOM: Final = 30

Rows = Sequence[tuple[str, Mapping[str, float]]]


class RatioRow(NamedTuple):
    """One line of a chart of ratios."""

    label: str
    ratio: float
    low: float
    high: float
    goal: float | None = None


class Panel(NamedTuple):
    """One small chart: for each server, where its line goes."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def colour_of(who: str, names: Sequence[str]) -> str:
    """The colour of a server: its own, or one by its place among the others."""
    if who in COLOURS:
        return COLOURS[who]
    others = [name for name in names if name not in COLOURS]
    return OTHER_COLOURS[others.index(who) % len(OTHER_COLOURS)]


# --- the pieces ----------------------------------------------------------------------------------------------------


def _text(
    x: float, y: float, text: str, *, size: int = 12, colour: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )


def _rectangle(x: float, y: float, width: float, height: float, *, colour: str, opacity: float = 1) -> str:
    fade = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    size = f'width="{max(width, 0.5):.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="2" fill="{colour}"{fade}/>'


def _line(x1: float, y1: float, x2: float, y2: float, *, colour: str = GRID, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _page(height: float, title: str, note: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
        f' height="{height:.0f}" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" role="img">'
        f"<title>{escape(title)}</title>"
    )
    shown = [
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
        _text(MARGIN, 28, title, size=17, bold=True),
        _text(MARGIN, 47, note, colour=QUIET),
    ]
    return "\n".join([head, *shown, *parts, "</svg>", ""])


def _legend(names: Sequence[str], y: float) -> list[str]:
    parts, x = [], float(MARGIN)
    for name in names:
        parts += [_rectangle(x, y - 9, 11, 11, colour=colour_of(name, names)), _text(x + 17, y, name)]
        x += 17 + 7.0 * len(name) + 22
    return parts


def _label_room(labels: Sequence[str]) -> float:
    return min(440.0, 7.1 * max(map(len, labels), default=0) + 14)


def _names(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


# --- bars ----------------------------------------------------------------------------------------------------------


def bars(title: str, note: str, rows: Rows, *, logarithmic: bool = False) -> str:
    """Draw a bar for each server in each row."""
    names = _names([values for _, values in rows])
    left = MARGIN + _label_room([label for label, _ in rows])
    room = WIDTH - left - 70
    values = [value for _, row in rows for value in row.values() if value > 0]
    most, least = max(values, default=1.0), min(values, default=1.0) / 2
    parts, y = _legend(names, TITLE + 14), TITLE + 34.0
    for label, row in rows:
        height = 15 * len(row)
        parts.append(_text(left - 10, y + height / 2 + 4, label, anchor="end"))
        for name, value in row.items():
            share = value / most
            if logarithmic and value > 0:
                share = math.log(value / least) / math.log(most / least)
            parts.append(_rectangle(left, y + 1, room * share, 12, colour=colour_of(name, names)))
            parts.append(_text(left + room * share + 6, y + 11, short(value), size=11, colour=QUIET))
            y += 15
        y += 11
    return _page(y + 8, title, note + (" (logarithmic)" if logarithmic else ""), parts)


# --- ratios --------------------------------------------------------------------------------------------------------


def ratios(title: str, note: str, rows: Sequence[RatioRow]) -> str:
    """Draw each ratio from 1 outwards, with the range of its rounds as a thin line and its goal as a tick."""
    left = MARGIN + _label_room([row.label for row in rows])
    right = WIDTH - 74.0
    numbers = [number for row in rows for number in (row.ratio, row.goal or 1.0) if 0 < number < math.inf]
    low, high = math.log(min([0.8, *numbers]) * 0.93), math.log(max([1.25, *numbers]) * 1.07)

    def place(ratio: float) -> float:
        bounded = min(max(math.log(max(ratio, 1e-9)), low), high)
        return left + (right - left) * (bounded - low) / (high - low)

    top = TITLE + 26.0
    bottom = top + 22 * len(rows)
    parts = []
    last = -math.inf
    for tick in (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500):
        if low <= math.log(tick) <= high and place(tick) > last + TICK_ROOM:
            last = place(tick)
            one = tick == 1
            parts.append(
                _line(place(tick), top - 4, place(tick), bottom, colour=INK if one else GRID, width=1.5 if one else 1)
            )
            parts.append(_text(place(tick), top - 9, f"{tick:g}×", size=11, colour=QUIET, anchor="middle"))
    for number, row in enumerate(rows):
        y = top + 22 * number + 3
        parts.append(_text(left - 10, y + 12, row.label, anchor="end"))
        ends = sorted((place(1), place(row.ratio)))
        met = row.ratio >= (row.goal or 1.0) * NEARLY
        parts.append(_rectangle(ends[0], y + 2, ends[1] - ends[0], 12, colour=GOOD if met else BAD, opacity=0.85))
        parts.append(_line(place(row.low), y + 8, place(row.high), y + 8, colour=INK))
        if row.goal:
            parts.append(_line(place(row.goal), y - 1, place(row.goal), y + 17, colour=INK, width=2, dash="3 2"))
        edge = max(place(row.ratio), place(row.high), place(row.goal or 0.0), place(1))
        parts.append(_text(edge + 6, y + 12, times(row.ratio), size=11, colour=INK if met else BAD, bold=True))
    return _page(bottom + 16, title, note, parts)


# --- lines ---------------------------------------------------------------------------------------------------------


def lines(title: str, note: str, panels: Sequence[Panel], *, across: int = 3) -> str:
    """Draw small charts side by side, each with its own logarithmic axes; a flat line costs the same at every size."""
    names = _names([panel.lines for panel in panels])
    parts = _legend(names, TITLE + 14)
    across = max(1, min(across, len(panels)))
    width = (WIDTH - 2 * MARGIN) / across
    height = 190.0
    for number, panel in enumerate(panels):
        x, y = MARGIN + width * (number % across), TITLE + 30 + height * (number // across)
        parts += _panel(panel, names, x, y, size=(width, height))
    return _page(TITLE + 30 + height * math.ceil(len(panels) / across) + 6, title, note, parts)


def _panel(panel: Panel, names: Sequence[str], x: float, y: float, *, size: tuple[float, float]) -> list[str]:
    width, height = size
    left, right, top, bottom = x + 42, x + width - 18, y + 26, y + height - 28
    points = [point for line in panel.lines.values() for point in line if point[1] > 0]
    if not points:
        return []
    low_x, high_x = math.log10(min(p[0] for p in points)), math.log10(max(p[0] for p in points))
    low_y, high_y = _decades([p[1] for p in points])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        along = (math.log10(point[0]) - low_x) / ((high_x - low_x) or 1)
        up = (math.log10(point[1]) - low_y) / (high_y - low_y)
        return left + (right - left) * along, bottom - (bottom - top) * up

    parts = [_text(x + 4, y + 14, panel.title, bold=True)]
    for tick in _ticks(low_y, high_y):
        at = place((10**low_x, tick))[1]
        parts += [_line(left, at, right, at), _text(left - 5, at + 4, short(tick), size=10, colour=QUIET, anchor="end")]
    parts.append(_text(right, y + 14, panel.unit, size=10, colour=QUIET, anchor="end"))
    for tick in sorted({point[0] for point in points}):
        at = place((tick, 10**low_y))[0]
        parts.append(_text(at, bottom + 16, short(tick), size=10, colour=QUIET, anchor="middle"))
    for name, line in panel.lines.items():
        places = [place(point) for point in line if point[1] > 0]
        path = " ".join(f"{at:.1f},{up:.1f}" for at, up in places)
        colour = colour_of(name, names)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{at:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>' for at, up in places]
    return parts


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Bounds of a logarithmic axis: never less than a decade, so that noise does not look like growth."""
    low, high = math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15
    if high - low < 1:
        middle = (low + high) / 2
        low, high = middle - 0.5, middle + 0.5
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    wanted = (1, 2, 5) if high - low < 1.7 else (1,)
    ticks = [digit * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for digit in wanted]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]
