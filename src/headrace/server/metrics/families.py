"""The text that Prometheus reads: families of samples, in its own format and in OpenMetrics.

    # HELP redis_stream_length How many entries a stream has
    # TYPE redis_stream_length gauge
    redis_stream_length{db="db0",stream="orders"} 120

Both formats have the same samples. OpenMetrics names a counter without its `_total`, and ends with `# EOF`. Names of
streams, groups and consumers are whatever bytes clients chose: they become text of a bounded length here, and what has
a meaning in the format is escaped.
"""

from collections.abc import Iterable
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram", "summary"]
Number = int | float

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_MOST_LABEL_BYTES: Final = 256  # of a name: it is stored with every sample
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def label_of(name: bytes) -> str:
    """Return the text that stands for a name of a client's choice; two names may have the same."""
    cut = len(name) > _MOST_LABEL_BYTES
    text = name[:_MOST_LABEL_BYTES].decode("utf-8", "backslashreplace")
    return text + "…" if cut else text


def labels(**values: str) -> str:
    """Write labels once, for all the samples that have them."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items())


class Family:
    """The samples of one name."""

    def __init__(self, name: str, kind: Kind, about: str) -> None:
        self.name = name
        self._kind = kind
        self._about = about.translate(_HELP_ESCAPES)
        self._samples: list[str] = []

    def add(self, value: Number, written_labels: str = "") -> None:
        """Add a sample; the labels are written by `labels`."""
        self._add(self.name, value, written_labels)

    def add_histogram(self, rows: list[tuple[int, int]], unit: float, written_labels: str = "") -> None:
        """Add a histogram: (bound, how many were at most that), then (sum, count), in units of which `unit` is one."""
        *buckets, (total, count) = rows
        before = f"{written_labels}," if written_labels else ""
        for bound, below in buckets:
            self._add(f"{self.name}_bucket", below, f'{before}le="{float(bound * unit)!r}"')
        self._add(f"{self.name}_bucket", count, f'{before}le="+Inf"')
        self._add(f"{self.name}_sum", total * unit, written_labels)
        self._add(f"{self.name}_count", count, written_labels)

    def add_summary(self, total: float, count: int) -> None:
        """Add how much it was altogether, and how often."""
        self._add(f"{self.name}_sum", total, "")
        self._add(f"{self.name}_count", count, "")

    def _add(self, name: str, value: Number, written_labels: str) -> None:
        self._samples.append(f"{name}{{{written_labels}}} {value}" if written_labels else f"{name} {value}")

    def lines(self, *, open_metrics: bool) -> Iterable[str]:
        """Give the lines of the text; none where there is no sample."""
        if self._samples:
            name = self.name.removesuffix("_total") if open_metrics and self._kind == "counter" else self.name
            yield f"# HELP {name} {self._about}"
            yield f"# TYPE {name} {self._kind}"
            yield from self._samples


class Families:
    """All families of one reading, in the order in which they were made."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._texts: dict[bool, bytes] = {}

    def family(self, name: str, kind: Kind, about: str) -> Family:
        """Return the family of a name, which is made where there is none yet."""
        known = self._families.get(name)
        if known is None:
            known = self._families[name] = Family(name, kind, about)
        return known

    def gauge(self, name: str, about: str, value: Number, written_labels: str = "") -> None:
        """Add a sample that may rise and fall."""
        self.family(name, "gauge", about).add(value, written_labels)

    def counter(self, name: str, about: str, value: Number, written_labels: str = "") -> None:
        """Add a sample that only rises."""
        self.family(name, "counter", about).add(value, written_labels)

    def text(self, *, open_metrics: bool) -> bytes:
        """Write everything, when all samples are there; the second time, it is what was written before."""
        if open_metrics in self._texts:
            return self._texts[open_metrics]
        lines = [line for family in self._families.values() for line in family.lines(open_metrics=open_metrics)]
        if open_metrics:
            lines.append("# EOF")
        text = self._texts[open_metrics] = ("\n".join(lines) + "\n").encode()
        return text
