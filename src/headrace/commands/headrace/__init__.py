"""HEADRACE and its subcommands: packed nodes for Spark, rules of queues, delays, and effects that Redis lacks."""

from headrace.commands.headrace import reading, redriving, replaying, rules, scheduling, tallies, writing

__all__ = ["reading", "redriving", "replaying", "rules", "scheduling", "tallies", "writing"]
