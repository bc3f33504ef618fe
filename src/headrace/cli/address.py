"""Where a server is, as a person names it. What speaks to it is in `connecting`."""

from dataclasses import dataclass
from typing import Final

DEFAULT_URL: Final = "redis://127.0.0.1:6379"


@dataclass(frozen=True)
class ServerAddress:
    """A url, and what was said beside it, which counts more than what the url says."""

    url: str = DEFAULT_URL
    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = None
    db: int | None = None
    tls: bool = False
