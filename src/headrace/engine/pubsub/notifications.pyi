from enum import IntEnum

class Event(IntEnum):
    KEYSPACE = 1
    KEYEVENT = 2
    GENERIC = 4
    STRING = 8
    LIST = 16
    SET = 32
    HASH = 64
    SORTED_SET = 128
    EXPIRED = 256
    EVICTED = 512
    STREAM = 1024
    MODULE = 2048
    NEW = 4096
    OVERWRITTEN = 8192
    TYPE_CHANGED = 16384
    KEY_MISS = 32768

READERS: frozenset[bytes]
NO_READERS: frozenset[bytes]

def read_classes(letters: str) -> int | None: ...
def show_classes(classes: int) -> str: ...
