"""Plots without a library: shapes as SVG that stretches, words as HTML that does not.

    ┌ y ┬──────────────────────┐
    │   │  <svg> fills the box │      so that letters have the same size on a phone as on a wide screen
    │   └──────────────────────┘
    └      x labels, as HTML   ┘

Colours are variables of the page (--s0 … --s6), so that dark mode changes them too.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from math import floor, log10
from typing import Final

_UNITS: Final = ("", " k", " M", " G", " T")
_BYTES: Final = ("B", "KB", "MB", "GB", "TB")
_DURATIONS: Final = ((1000, "ms"), (60, "s"), (60, "min"), (24, "h"), (10**9, "d"))
_YEAR_10000_MS: Final = 253_402_300_800_000
_DAY_MS: Final = 86_400_000


def amount(number: float) -> str:
    """Return a number as a person reads it: 12, 3.4 k, 1.2 M."""
    unit = 0
    while abs(number) >= 1000 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{_three_digits(number)}{_UNITS[unit]}"


def byte_size(size: float) -> str:
    """Return a size as a person reads it."""
    unit = 0
    while size >= 1000 and unit < len(_BYTES) - 1:
        size /= 1024
        unit += 1
    return f"{_three_digits(size)} {_BYTES[unit]}"


def duration(milliseconds: float) -> str:
    """Return a time as a person reads it: 12 ms, 3.4 s, 5 min."""
    left = milliseconds
    for step, unit in _DURATIONS:
        if left < step:
            return f"{_three_digits(left)} {unit}"
        left /= step
    return f"{left:.0f} {_DURATIONS[-1][1]}"


def moment(ms: int, span_ms: int) -> str:
    """Return a time of day or a date, as exact as the span asks for, in UTC."""
    if ms >= _YEAR_10000_MS:
        return f"{ms} ms"
    at = datetime.fromtimestamp(ms / 1000, UTC)
    if span_ms > 4 * _DAY_MS:
        return f"{at:%Y-%m-%d}"
    if span_ms > _DAY_MS:
        return f"{at:%m-%d %H:%M}"
    return f"{at:%H:%M}" if span_ms > 10 * 60_000 else f"{at:%H:%M:%S}"


def _three_digits(number: float) -> str:
    if number == 0 or abs(number) >= 100:
        return f"{number:.0f}"
    text = f"{number:.{max(0, 1 - floor(log10(abs(number))))}f}" if abs(number) < 1 else f"{number:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ceiling(greatest: float) -> float:
    """Return a number that is at least so great, and whose quarters are round."""
    if greatest <= 0:
        return 1.0
    power = 10.0 ** floor(log10(greatest))
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * power >= greatest)


def stacked_steps(
    layers: Sequence[tuple[str, Sequence[float]]], titles: Sequence[str], x_labels: Sequence[str], unit: str
) -> str:
    """Draw layers of values over time on top of each other, each with its colour."""
    places = len(titles)
    totals = [sum(values[place] for _, values in layers) for place in range(places)]
    top = ceiling(max(totals, default=0))
    below = [0.0] * places
    paths = []
    for colour, values in layers:
        above = [low + value for low, value in zip(below, values, strict=True)]
        forth = " ".join(f"L{place} {_y(high, top)} L{place + 1} {_y(high, top)}" for place, high in enumerate(above))
        back = " ".join(
            f"L{place + 1} {_y(below[place], top)} L{place} {_y(below[place], top)}"
            for place in reversed(range(places))
        )
        paths.append(f'<path fill="{colour}" d="M0 {_y(below[0], top)} {forth} {back} Z"/>')
        below = above
    hovers = [
        f'<rect class="hover" x="{place}" y="0" width="1" height="100"><title>{escape(title)}</title></rect>'
        for place, title in enumerate(titles)
    ]
    svg = f'<svg viewBox="0 0 {places} 100" preserveAspectRatio="none">{"".join(paths)}{"".join(hovers)}</svg>'
    return _framed(svg, [amount(top * part / 4) for part in range(5)], x_labels, unit)


def columns(values: Sequence[float], titles: Sequence[str], x_labels: Sequence[str], colour: str) -> str:
    """Draw a histogram."""
    top = ceiling(max(values, default=0))
    bars = [
        f'<rect x="{place + 0.08}" y="{_y(value, top)}" width="0.84" height="{100 * value / top:.2f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
        for place, (value, title) in enumerate(zip(values, titles, strict=True))
    ]
    svg = f'<svg viewBox="0 0 {max(1, len(values))} 100" preserveAspectRatio="none">{"".join(bars)}</svg>'
    return _framed(svg, [amount(top * part / 2) for part in range(3)], x_labels, "", small=True)


def bars(rows: Sequence[tuple[str, float, str]], colour: str = "var(--s0)") -> str:
    """Draw named values as bars from left to right: (name, value, what to write behind it)."""
    top = max((value for _, value, _ in rows), default=0) or 1
    lines = [
        f'<li><span class="name" title="{escape(name)}">{escape(name) or "(empty)"}</span>'
        f'<span class="track"><i style="width:{100 * value / top:.1f}%;background:{colour}"></i></span>'
        f'<span class="value">{escape(text)}</span></li>'
        for name, value, text in rows
    ]
    return f'<ul class="bars">{"".join(lines)}</ul>'


def legend(names: Sequence[tuple[str, str]]) -> str:
    """Name the colours."""
    items = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for colour, name in names)
    return f'<p class="legend">{"".join(items)}</p>'


def _y(value: float, top: float) -> str:
    return f"{100 - 100 * value / top:.2f}"


def _framed(svg: str, y_labels: Sequence[str], x_labels: Sequence[str], unit: str, *, small: bool = False) -> str:
    steps = len(y_labels) - 1
    lines = "".join(
        f'<span style="bottom:{100 * place / steps:.1f}%">{escape(label)}</span>'
        for place, label in enumerate(y_labels)
    )
    under = "".join(f"<span>{escape(label)}</span>" for label in x_labels)
    note = f'<span class="unit">{escape(unit)}</span>' if unit else ""
    kind = "plot small" if small else "plot"
    box = f'<div class="box"><div class="y">{lines}</div>{svg}</div>'
    return f'<div class="{kind}">{note}{box}<div class="x">{under}</div></div>'
