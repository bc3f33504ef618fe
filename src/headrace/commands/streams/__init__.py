"""Commands on streams: XADD to XTRIM."""

from headrace.commands.streams import entries, groups, info, reads

__all__ = ["entries", "groups", "info", "reads"]
