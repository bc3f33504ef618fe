"""A server with a metrics port, and its samples as Prometheus reads them."""

import http.client
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from support.patience import PATIENCE_S
from support.ports import free_port
from support.server_process import LAUNCHER, ServerProcess

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class MeteredServer(ServerProcess):
    """A server with a metrics port."""

    def __init__(self, directory: Path, *arguments: str, launcher: tuple[str, ...] = LAUNCHER) -> None:
        self.metrics_port = free_port()
        super().__init__(directory, "--metrics-port", str(self.metrics_port), *arguments, launcher=launcher)

    def ask(self, path: str = "/metrics", method: str = "GET", accept: str = "") -> tuple[int, str, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=PATIENCE_S)) as connection:
            connection.request(method, path, headers={"Accept": accept} if accept else {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()

    def samples(self, accept: str = "") -> Samples:
        status, kind, text = self.ask(accept=accept)
        assert status == 200, text
        assert kind.startswith("application/openmetrics-text" if accept else "text/plain; version=0.0.4")
        parse: Callable[[str], Iterable[Metric]] = parse_open_metrics if accept else parse_text
        found: Samples = {}
        for family in parse(text):
            assert family.documentation
            for sample in family.samples:
                place = (sample.name, frozenset(sample.labels.items()))
                assert place not in found, f"{place} comes twice"
                found[place] = sample.value
        return found

    def await_samples(self, wanted: Callable[[Samples], bool]) -> Samples:
        """Return samples that are as wanted; a reading may be a second old."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(samples := self.samples()):
            assert time.monotonic() < deadline, "the metrics never said so"
            time.sleep(0.1)
        return samples


def at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())
