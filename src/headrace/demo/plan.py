"""What the demo sends, how fast, and where its files go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

STREAM: Final = "devmsg"
PROCESSED: Final = "processed"
GROUP: Final = "workers"
ARCHIVE_GROUP: Final = "archive"
WARM_UP: Final = "warm-up"
PRODUCER: Final = "device-"  # and its number: the name of the producer, by which the server recognises what it has sent

WORKERS: Final = 3
VICTIM: Final = 2  # the worker that is killed
STALE_MS: Final = 2000  # what a worker has had in hand for so long, another claims
WINDOW_SECONDS: Final = 5

KILL_WORKER_AT: Final = 0.3  # of the messages
KILL_SERVER_AT: Final = 0.6
DOWN_SECONDS: Final = 1.0  # that the server stays away


@dataclass(frozen=True)
class Plan:
    """One run of the demo."""

    directory: Path
    messages: int
    devices: int
    seconds: float
    """In which the messages are sent, where nothing holds the devices up."""

    @property
    def data(self) -> Path:
        """The server's directory."""
        return self.directory / "data"

    @property
    def archive(self) -> Path:
        """Where Spark writes every message."""
        return self.directory / "archive"

    @property
    def windows(self) -> Path:
        """Where Spark writes the windows."""
        return self.directory / "windows"

    @property
    def scratch(self) -> Path:
        """What only Spark needs: checkpoints, temporary files."""
        return self.directory / "spark"

    def log(self, name: str) -> Path:
        """Return where a process writes what it has to say."""
        return self.directory / f"{name}.log"

    def share_of(self, device: int) -> int:
        """Return how many messages a device sends; devices count from 1."""
        return self.messages // self.devices + (device <= self.messages % self.devices)
