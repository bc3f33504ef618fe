"""The stored form: stream IDs, listpacks, the rax, streams, consumer groups.

Compiled. Knows no sockets, files, commands, clocks or configuration: bytes, times and limits come in as arguments.
One thread owns a structure; nothing here locks.

    from headrace.core import Listpack, RaxMap      the two structures below streams, for any program
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.core.listpack import Listpack as Listpack
    from headrace.core.rax_map import RaxMap as RaxMap

_HOMES: Final = {"Listpack": "headrace.core.listpack", "RaxMap": "headrace.core.rax_map"}


def __getattr__(name: str) -> Any:
    """Load a structure when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
