"""The readings of the page: each is a function of a session and the page's question, and asks the server as that user.

Every one is bounded: so many keys, entries, consumers or lines at a time, and the answer says where there is more.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from headrace.console.api.beside import read_dead, read_scheduled
from headrace.console.api.catalogue import read_groups, read_streams
from headrace.console.api.entries import read_entries, read_entry
from headrace.console.api.groups import read_group, read_pending
from headrace.console.api.inside import read_inside, read_node
from headrace.console.api.overview import read_overview
from headrace.console.api.pipelines import read_pipelines
from headrace.console.api.server import (
    read_clients,
    read_latency,
    read_server,
    read_settings,
    read_slow_log,
    read_users,
)
from headrace.console.api.stream import read_stream
from headrace.console.sessions import Session

Reading = Callable[[Session, dict[str, Any]], Awaitable[dict[str, Any]]]

READINGS: Final[dict[str, Reading]] = {
    "overview": read_overview,
    "streams": read_streams,
    "groups": read_groups,
    "stream": read_stream,
    "entries": read_entries,
    "entry": read_entry,
    "group": read_group,
    "pending": read_pending,
    "inside": read_inside,
    "node": read_node,
    "dead": read_dead,
    "scheduled": read_scheduled,
    "pipelines": read_pipelines,
    "server": read_server,
    "slow_log": read_slow_log,
    "latency": read_latency,
    "clients": read_clients,
    "settings": read_settings,
    "users": read_users,
}
