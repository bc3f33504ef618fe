"""How bytes, numbers and durations look to a person, in every command alike."""

from typing import Final

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_ESCAPES: Final = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_DURATIONS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def shown(text: bytes, most: int | None = None) -> str:
    """Write bytes as text: what can be shown is itself, the rest is escaped."""
    cut = most is not None and len(text) > most
    decoded = (text[:most] if cut else text).decode("utf-8", "backslashreplace").translate(_ESCAPES)
    if not decoded.isprintable():
        decoded = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in decoded)
    return decoded + ("…" if cut else "")


def lossless(text: bytes) -> str:
    """Write bytes as a string that `raw` makes the same bytes of: what is not UTF-8 becomes lone surrogates."""
    return text.decode("utf-8", "surrogateescape")


def raw(text: str) -> bytes:
    """Return the bytes of a string, whether `lossless` or a program made it."""
    return text.encode("utf-8", "surrogateescape")


def padded(text: str, width: int) -> str:
    """Fill a text up to so many columns of a terminal; 漢字 take two each."""
    from rich.cells import cell_len  # noqa: PLC0415 — `--help` and `serve` start without it

    return text + " " * max(0, width - cell_len(text))


def number(value: int | None) -> str:
    """Write a number with its thousands apart; nothing where it is not known."""
    return "" if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Write how many per second."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def size(value: int | None) -> str:
    """Write a number of bytes."""
    if value is None:
        return ""
    written = float(value)
    unit = 0
    while written >= 1000 and unit < len(_UNITS) - 1:
        written /= 1024
        unit += 1
    return f"{written:.0f} {_UNITS[unit]}" if unit == 0 or written >= 100 else f"{written:.1f} {_UNITS[unit]}"


def duration(ms: int | None) -> str:
    """Write a duration with its two largest units."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{max(ms, 0)}ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}s"
    parts: list[str] = []
    for unit, length in _DURATIONS:
        count, ms = divmod(ms, length)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0"))


def plural(count: int, what: str, many: str | None = None) -> str:
    """Count things in words."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def entries(count: int) -> str:
    """Count entries in words."""
    return plural(count, "entry", "entries")
