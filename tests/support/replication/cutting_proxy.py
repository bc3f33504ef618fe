"""A link that breaks: a proxy before a server, which ends connections after so many bytes."""

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Self

from support.patience import PATIENCE_S

NEVER = 1 << 62


class CuttingProxy:
    """Listens on a port of its own. `next_cut` says after how many bytes of the server each connection ends."""

    def __init__(self, port: int, next_cut: Callable[[], int] = lambda: NEVER) -> None:
        self._target = port
        self.next_cut = next_cut
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(PATIENCE_S)

    def cut(self) -> None:
        """End all connections now."""
        for opened in list(self._open):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target), PATIENCE_S)
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client, server, self.next_cut()), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket, left: int) -> None:
        self._open |= {client, server}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ, (client, server))
                selector.register(server, selectors.EVENT_READ, (server, client))
                while left > 0:
                    for key, _ in selector.select():
                        source, target = key.data
                        data = source.recv(min(65536, left))
                        if not data:
                            return
                        target.sendall(data)
                        left -= len(data) * (source is server)
                self.cuts += 1
        except OSError:
            pass
        finally:
            self._open -= {client, server}
            client.close()
            server.close()
