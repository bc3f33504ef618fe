from enum import IntEnum
from typing import Final, final

from headrace.engine.client import Client

NO_END_MS: Final[int]

class Purpose(IntEnum):
    CLIENT = 0
    FAILOVER = 1
    SHUTDOWN = 2
    MEMORY = 3

@final
class Pauses:
    @property
    def held(self) -> dict[Client, None]: ...
    def begin(self, until_ms: int, *, writes_only: bool, purpose: Purpose = ...) -> None: ...
    def end(self, purpose: Purpose = ...) -> None: ...
    def find_first_end(self) -> None: ...
    def are_on(self) -> bool: ...
