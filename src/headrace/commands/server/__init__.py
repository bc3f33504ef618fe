"""Commands about the server: users, settings, the table of commands, what is on disk, and what the server counts."""

from headrace.commands.server import (
    acl,
    admin,
    command_table,
    config,
    debug,
    info,
    latency,
    monitoring,
    persistence,
    replication,
)

__all__ = [
    "acl",
    "admin",
    "command_table",
    "config",
    "debug",
    "info",
    "latency",
    "monitoring",
    "persistence",
    "replication",
]
