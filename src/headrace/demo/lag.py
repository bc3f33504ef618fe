"""How far the readers are behind the devices: sampled four times a second, drawn in the terminal.

not yet processed                               each column is some samples, its height the greatest of them
4,120 ┤              ▂▇▄
      │             ▃███▅
    0 ┼▁▁▁▁▁▁▁▂▁▁▁▁▁█████▁▁▁
      0:00      ▲worker ▲server
"""

from dataclasses import dataclass, field
from typing import Final

_STEPS: Final = " ▁▂▃▄▅▆▇█"
_HEIGHT: Final = 4


@dataclass(frozen=True)
class Sample:
    """One look at the streams, so many seconds after the devices began."""

    seconds: float
    sent: int
    processed: int
    archived: int | None  # None: there is no Spark


@dataclass
class LagRecord:
    """Everything that was sampled, and what happened meanwhile."""

    samples: list[Sample] = field(default_factory=list)
    worker_killed: float | None = None
    server_killed: float | None = None
    server_back: float | None = None

    def behind(self, reader: str) -> list[tuple[float, int]]:
        """Return how many messages a reader ("processed" or "archived") had still to read, over time."""
        found = []
        for sample in self.samples:
            done = sample.processed if reader == "processed" else sample.archived
            if done is not None:
                found.append((sample.seconds, max(0, sample.sent - done)))
        return found

    def marks(self) -> list[tuple[float, str]]:
        """Return what happened, and when."""
        named = ((self.worker_killed, "worker killed"), (self.server_killed, "server killed"))
        return [(moment, name) for moment, name in named if moment is not None]


def draw(points: list[tuple[float, int]], title: str, marks: list[tuple[float, str]], width: int) -> list[str]:
    """Draw values over time as columns of blocks, with marks below; lines of at most `width` characters."""
    most, last = max(value for _, value in points), max(points[-1][0], 1.0)
    label = f"{most:,}"
    columns = max(10, width - len(label) - 5)
    heights = [0] * columns
    for moment, value in points:
        place = min(columns - 1, int(moment / last * columns))
        heights[place] = max(heights[place], value)
    full = max(1, most)
    eighths = [-(-value * _HEIGHT * 8 // full) for value in _without_gaps(heights, points, last)]
    lines = [f" {title}"]
    for row in reversed(range(_HEIGHT)):
        name = label if row == _HEIGHT - 1 else "0" if row == 0 else ""
        edge = "┤" if row == _HEIGHT - 1 else "┼" if row == 0 else "│"
        blocks = "".join(_STEPS[min(8, max(0, eighth - 8 * row))] for eighth in eighths)
        lines.append(f" {name:>{len(label)}} {edge}{blocks}".rstrip())
    axis = [" "] * (columns + 24)
    for moment, name in [(0.0, "0:00"), *((at, f"▲ {mark}") for at, mark in marks)]:
        place = min(columns - 1, int(moment / last * columns))
        axis[place : place + len(name)] = name
    end = f"{int(last) // 60}:{int(last) % 60:02}"
    if not "".join(axis[columns - len(end) - 1 :]).strip():
        axis[columns - len(end) : columns] = end
    lines.append(f" {'':>{len(label)}}  {''.join(axis).rstrip()}"[:width])
    return lines


def _without_gaps(heights: list[int], points: list[tuple[float, int]], last: float) -> list[int]:
    """Give a column that no sample fell into the value before it."""
    seen = {min(len(heights) - 1, int(moment / last * len(heights))) for moment, _ in points}
    filled: list[int] = []
    for place, value in enumerate(heights):
        filled.append(value if place in seen or not filled else filled[-1])
    return filled
