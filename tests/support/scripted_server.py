"""A server that answers as a test says: to each request with bytes, or by closing the connection."""

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.protocol.request import RequestParser

HELLO = b"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"

Answer = Callable[[list[bytes]], bytes | None]


class ScriptedServer:
    """Calls `answer` with each request; None closes the connection. HELLO is answered here."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[list[bytes]] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        parser = RequestParser()
        with connection:
            while data := connection.recv(65536):
                parser.feed(data)
                while request := parser.next():
                    if request[0] == b"HELLO":
                        connection.sendall(HELLO)
                        continue
                    self.requests.append(list(request))
                    reply = self._answer(request)
                    if reply is None:
                        return
                    connection.sendall(reply)
