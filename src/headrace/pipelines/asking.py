"""What jobs ask a server themselves, beside what Spark reads."""

from typing import Any

from headrace.clients.urls import split_urls
from headrace.spark.connecting import Connections
from headrace.spark.options import ServerOptions
from headrace.spark.servers import Server


def connect(url: str, *, patient: bool = False) -> Connections:
    """Return the servers of a url; unless `patient`, asking one that does not answer fails at once."""
    return Connections(ServerOptions(split_urls(url), "auto", 30.0), patient=patient)


def groups_of(server: Server, key: bytes) -> list[dict[bytes, Any]]:
    """Return what XINFO GROUPS tells."""
    return [dict(zip(group[::2], group[1::2], strict=True)) for group in server.ask("XINFO", "GROUPS", key, key=key)]
