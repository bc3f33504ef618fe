"""Commands on the values beside streams: strings, lists, sets, hashes and sorted sets."""

from headrace.commands.collections import (
    bit_fields,
    bits,
    common_subsequence,
    hashes,
    hyperloglogs,
    list_moves,
    lists,
    plain_values,
    set_algebra,
    sets,
    sorted_set_algebra,
    sorted_set_pops,
    sorted_set_ranges,
    sorted_sets,
    string_edits,
    strings,
)

__all__ = [
    "bit_fields",
    "bits",
    "common_subsequence",
    "hashes",
    "hyperloglogs",
    "list_moves",
    "lists",
    "plain_values",
    "set_algebra",
    "sets",
    "sorted_set_algebra",
    "sorted_set_pops",
    "sorted_set_ranges",
    "sorted_sets",
    "string_edits",
    "strings",
]
