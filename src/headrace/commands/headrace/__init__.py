"""HEADRACE and its subcommands: packed nodes to and from Spark, and effects that Redis has no command for."""

from headrace.commands.headrace import reading, replaying, writing

__all__ = ["reading", "replaying", "writing"]
