import socket
from collections.abc import Callable
from typing import Any, final

from headrace.engine.engine import Engine
from headrace.server.connection import Connection, Host
from headrace.session.session import Limits
from headrace.storage.journal import Journal

class SocketPoll:
    def __init__(self, engine: Engine, journal: Journal, failure: Callable[[Exception], None]) -> None: ...
    @property
    def fileno(self) -> int: ...
    def run_turn(self) -> None: ...

@final
class SocketConnection(Connection):
    def __init__(self, engine: Engine, journal: Journal, host: Host, limits: Limits, poll: SocketPoll) -> None: ...
    def serve(self, opened: socket.socket, peer: Any, own: Any) -> None: ...
