from collections.abc import Callable
from typing import final

from headrace.engine.effect_log import Subscriber

@final
class Backlog(Subscriber):
    least: int
    most: int
    needed_from: int
    on_more: Callable[[], None] | None
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    def begin_at(self, offset: int) -> None: ...
    def read(self, offset: int, size: int) -> bytes: ...
