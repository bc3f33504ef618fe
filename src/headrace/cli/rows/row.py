"""One entry on its way between a stream and a file."""

from typing import Final, NamedTuple, TypeAlias

Pairs: TypeAlias = list[tuple[bytes, bytes]]

ID_COLUMN: Final = "_id"


class Row(NamedTuple):
    """An entry; without an ID, where the server is to make one. `line` says where in a file it stands."""

    id: bytes | None
    pairs: Pairs
    line: int = 0


def repeated_name(pairs: Pairs) -> bytes | None:
    """Return a name that these fields have twice."""
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None
