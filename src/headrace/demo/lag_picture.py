"""The lag as a PNG, drawn with matplotlib; no other part of the demo needs it."""

from pathlib import Path
from typing import Final

from headrace.demo.lag import LagRecord

_BLUE: Final = "#1f6feb"
_ORANGE: Final = "#d9730d"
_GREY: Final = "#57606a"


def write_picture(record: LagRecord, path: Path) -> bool:
    """Draw how far the readers were behind; False where there is no matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (optional, and only here)
    except ImportError:
        return False
    figure = Figure(figsize=(9, 4.2), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    for reader, name, colour in (
        ("archived", "archived to Parquet by Spark", _ORANGE),
        ("processed", "processed by the group of workers", _BLUE),
    ):
        points = record.behind(reader)
        if points:
            moments, values = zip(*_with_a_gap(points, record), strict=True)
            axes.fill_between(moments, values, color=colour, alpha=0.12, linewidth=0)
            axes.plot(moments, values, color=colour, linewidth=1.6, label=name)
    axes.set_xlim(0, record.samples[-1].seconds)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.1)
    top = axes.get_ylim()[1]
    if record.server_killed is not None and record.server_back is not None:
        axes.axvspan(record.server_killed, record.server_back, color=_GREY, alpha=0.18, linewidth=0)
    for moment, name in record.marks():
        axes.axvline(moment, color=_GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.text(moment, top * 0.97, f" {name}", color=_GREY, va="top", fontsize=9)
    axes.set_title("Messages that were sent and not yet …", loc="left", fontsize=11, pad=26)
    axes.set_xlabel("seconds since the devices began")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="#d0d7de", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 0.99),
        ncols=2,
        frameon=False,
        fontsize=10,
        reverse=True,
        handlelength=1.2,
    )
    figure.savefig(path)
    return True


def _with_a_gap(points: list[tuple[float, int]], record: LagRecord) -> list[tuple[float, float]]:
    """Break the line where the server was away and there are no samples."""
    if record.server_killed is None:
        return [*points]
    killed = record.server_killed
    before = [point for point in points if point[0] <= killed]
    return [*before, (killed, float("nan")), *points[len(before) :]]
