"""How fast counters grow: the mean over the last second and a half."""

from collections import deque
from typing import Final

_SAMPLES: Final = 16
_INTERVAL_MS: Final = 100


class Rates:
    """Samples of some counters, each taken at least a tenth of a second after the one before."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=_SAMPLES)

    def sample(self, steady_ms: int, counters: tuple[int, ...]) -> None:
        """Note what the counters are by now."""
        if not self._samples or steady_ms - self._samples[-1][0] >= _INTERVAL_MS:
            self._samples.append((steady_ms, counters))

    def per_second(self, counter: int) -> float:
        """Say how fast a counter grows."""
        if len(self._samples) < 2:
            return 0.0
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last[counter] - first[counter]) * 1000 / (ended - began)
