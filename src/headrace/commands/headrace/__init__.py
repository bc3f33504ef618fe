"""HEADRACE and its subcommands: packed nodes for Spark, rules of queues, and effects that Redis has no command for."""

from headrace.commands.headrace import reading, replaying, rules, writing

__all__ = ["reading", "replaying", "rules", "writing"]
