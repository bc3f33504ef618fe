"""Spikes of latency, by kind, for LATENCY: events that took longer than `latency-monitor-threshold`."""

from collections import deque

_SAMPLES = 160


class LatencyEvent:
    """The spikes of one kind: the worst of each second, the newest at the end, and the worst ever."""

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)  # (Unix seconds, ms)
        self.worst = 0

    def add(self, ms: int, second: int) -> None:
        """Note a spike."""
        self.worst = max(self.worst, ms)
        if self.samples and self.samples[-1][0] == second:
            ms = max(self.samples.pop()[1], ms)
        self.samples.append((second, ms))


class LatencyMonitor:
    """Every kind of spike that was seen; `threshold_ms` is 0 where nobody watches."""

    def __init__(self) -> None:
        self.threshold_ms = 0
        self.events: dict[bytes, LatencyEvent] = {}

    def add(self, name: bytes, ms: int, second: int) -> None:
        """Note that something took long."""
        self.events.setdefault(name, LatencyEvent()).add(ms, second)

    def reset(self, names: list[bytes]) -> int:
        """Forget the spikes of these names, or all where there are none; return how many kinds there were."""
        return sum(self.events.pop(name, None) is not None for name in names or list(self.events))
