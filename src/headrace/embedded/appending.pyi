from collections.abc import Callable
from typing import Any, Literal, final

from headrace.core.stream_id import StreamID
from headrace.embedded.host import Host
from headrace.embedded.local_connection import LocalConnection

@final
class Appender:
    def __init__(self, host: Host, connection: LocalConnection) -> None: ...
    def add(
        self, key: bytes, row: dict[Any, Any], ticket: Callable[[], LocalConnection]
    ) -> tuple[StreamID, LocalConnection | None] | None: ...
    def add_many(
        self, key: bytes, rows: list[dict[Any, Any]], ticket: Callable[[], LocalConnection]
    ) -> tuple[Literal[True], LocalConnection | None] | None: ...
