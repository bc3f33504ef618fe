"""Which columns the entries of a stream need, found by looking at all of them."""

from headrace.cli.errors import CommandFailed
from headrace.cli.rows.row import ID_COLUMN, Pairs, repeated_name
from headrace.cli.showing import raw, shown


class Columns:
    """The names of all fields, in the order in which they first come, and which of them are not text."""

    def __init__(self) -> None:
        self.names: dict[bytes, None] = {}
        self.binary: set[bytes] = set()

    def add(self, id: bytes, pairs: Pairs) -> None:
        """Look at an entry; refuses what no table can hold."""
        twice = repeated_name(pairs)
        if twice is not None:
            raise CommandFailed(
                f"The entry {id.decode()} has the field {shown(twice)} twice, and a table has one column for it: "
                "export JSON lines."
            )
        for name, value in pairs:
            if name not in self.names:
                if name == raw(ID_COLUMN):
                    raise CommandFailed(
                        f"The entry {id.decode()} has a field {ID_COLUMN}, which is what a table calls the ID: export "
                        "JSON lines."
                    )
                self.names[name] = None
            if name not in self.binary and not value.isascii() and not _is_text(value):
                self.binary.add(name)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
