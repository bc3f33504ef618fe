from collections.abc import Callable
from typing import Any, Literal, final

from headrace.core.stream_id import StreamID
from headrace.embedded.host import Host
from headrace.embedded.line import Line

@final
class Appender:
    def __init__(self, host: Host, line: Line) -> None: ...
    def add(
        self, key: bytes, row: dict[Any, Any], ticket: Callable[[], Line]
    ) -> tuple[StreamID, Line | None] | None: ...
    def add_many(
        self, key: bytes, rows: list[dict[Any, Any]], ticket: Callable[[], Line]
    ) -> tuple[Literal[True], Line | None] | None: ...
