"""HTTP for clients that get to the point: uvicorn's protocol, with a time by which a request must have come.

uvicorn waits for ever for the head of a request, and answers 503 to everybody while too many connections are open: two
hundred that say nothing would lock everyone out. Here a connection whose request has not begun to be answered after ten
seconds is closed, and one too many is closed at once.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S: float = 10.0
_MOST_CONNECTIONS: Final = 512


class PromptProtocol(H11Protocol):
    """See the module."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        else:
            self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or all of it."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._wait_for_request()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes a connection on which none begins."""
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()  # the next one was here already

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
