"""Commands on streams: XADD to XTRIM."""

from headrace.commands.streams import deleting, entries, groups, info, producers, reads

__all__ = ["deleting", "entries", "groups", "info", "producers", "reads"]
