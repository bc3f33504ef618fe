from typing import final

@final
class NodeLimits:
    max_bytes: int
    max_entries: int
    def __init__(self, max_bytes: int = 4096, max_entries: int = 100) -> None: ...
