"""Figures as people read them: three digits, which is more than the noise allows anyway."""

from __future__ import annotations

import math


def shown(value: float, unit: str = "") -> str:
    """Write a figure with its unit: 1.23 million messages/s, 412,000 requests/s, 38.1 µs."""
    if math.isinf(value):
        return "∞"
    if abs(value) >= 1e6:
        text = f"{value / 1e6:.3g} million" if abs(value) < 1e9 else f"{value:.3g}"
    elif abs(value) >= 100:
        text = f"{_rounded(value):,.0f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def short(value: float) -> str:
    """Write a figure for the tick of an axis or the end of a bar: 1.2M, 412k, 38.1."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def times(ratio: float) -> str:
    """Write a ratio: 1.52×, 24×."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.1f}×" if ratio < 100 else f"{ratio:,.0f}×"


def _rounded(value: float) -> float:
    digits = 3 - len(str(int(abs(value))))
    return round(value, min(0, digits))
