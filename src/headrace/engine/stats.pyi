from collections import deque
from typing import final

from headrace.engine.client import Client

class Rates:
    def __init__(self) -> None: ...
    def sample(self, steady_ms: int, counters: tuple[int, ...]) -> None: ...
    def per_second(self, counter: int) -> float: ...

@final
class Stats:
    commands: int
    connections: int
    rejected_connections: int
    hits: int
    misses: int
    expired: int
    error_replies: int
    bytes_in: int
    bytes_out: int
    query_limit_closed: int
    output_limit_closed: int
    slow_ns: int
    spike_ns: int
    slow_most: int
    slow_arguments: int
    slow_text: int
    def __new__(cls) -> Stats: ...
    @property
    def errors(self) -> dict[bytes, int]: ...
    @property
    def rates(self) -> Rates: ...
    @property
    def slow_log(self) -> deque[tuple[int, int, int, list[bytes], bytes, bytes]]: ...
    def count_error(self, text: bytes) -> int: ...
    def cut(self, text: bytes) -> bytes: ...
    def log_slow(self, client: Client, argv: list[bytes], nanoseconds: int, now_ms: int) -> None: ...
    def sample_rates(self, steady_ms: int) -> None: ...
    def reset(self) -> None: ...
