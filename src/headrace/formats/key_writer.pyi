from collections.abc import Callable
from typing import Any

from headrace.formats.rdb_primitives import RdbWriter

def write_keys(
    out: RdbWriter,
    values: dict[bytes, Any],
    expires: dict[bytes, int],
    write_key: Callable[[bytes, Any, int | None], None],
    report: Callable[[int], None],
) -> None: ...
