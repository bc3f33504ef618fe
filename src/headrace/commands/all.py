"""Every command: importing this fills the table."""

from headrace.commands import collections, connection, headrace, keys, scripting, server, streams
from headrace.commands.declaration.table import TABLE

__all__ = ["TABLE", "collections", "connection", "headrace", "keys", "scripting", "server", "streams"]
