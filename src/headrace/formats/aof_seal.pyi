from typing import Final

from headrace.formats.aof import Bytes

SEAL_BYTES: Final = 42

def seal(commands: bytes, unsynced: int = 0) -> bytes: ...
def was_synced(source: Bytes, place: int, position: int) -> bool: ...
