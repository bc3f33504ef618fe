from typing import final

from _typeshed import ReadableBuffer

@final
class ArrowColumn:
    def __init__(
        self,
        name: bytes,
        rows: int,
        offset: int,
        validity: ReadableBuffer | None,
        offsets: ReadableBuffer | None,
        data: ReadableBuffer | None,
        width: int,
    ) -> None: ...
    @property
    def name(self) -> bytes: ...
    @property
    def rows(self) -> int: ...

def pack_columns(
    columns: list[ArrowColumn], rows: int, ids: ArrowColumn | None, max_bytes: int, max_entries: int
) -> bytes: ...
def pack_maps(
    maps: ArrowColumn,
    names: ArrowColumn,
    texts: ArrowColumn,
    ids: ArrowColumn | None,
    max_bytes: int,
    max_entries: int,
) -> bytes: ...
