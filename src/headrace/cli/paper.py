"""What commands print tables on: a terminal has a width; a file or a pipe has none, and no line is broken there."""

import os
from typing import Final

from rich.console import Console

_ENDLESS: Final = 10_000


def paper() -> Console:
    """Return a console for standard output."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _ENDLESS
    return console
