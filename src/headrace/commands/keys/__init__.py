"""Commands on keys, whatever they hold: their names, their expiry, their payloads, and SCAN and SORT."""

from headrace.commands.keys import expiry, keys, objects, payloads, plain_keys, relocation, sorting

__all__ = ["expiry", "keys", "objects", "payloads", "plain_keys", "relocation", "sorting"]
