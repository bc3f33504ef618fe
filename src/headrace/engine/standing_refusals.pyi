from enum import IntEnum
from typing import final

class Cause(IntEnum):
    DISK = 0
    REPLICAS = 1
    CONFIRMATION = 2
    READ_ONLY = 3

@final
class StandingRefusals:
    writes: bytes | None
    stale: bytes | None
    over_memory: bool
    def refuse_writes(self, cause: int, text: bytes | None) -> None: ...
    def __getitem__(self, cause: int, /) -> bytes | None: ...
