"""The host's side of a client: what the engine asks of a connection, whatever carries it."""

from typing import Final, NamedTuple, Protocol


class ChannelFigures(NamedTuple):
    """What CLIENT LIST shows of a connection."""

    descriptor: int
    received: int  # bytes in the buffer of requests: those that run, and those that have not run yet
    room: int  # bytes that the buffer of requests has left
    parsed: int  # bytes of the arguments of a request of which the rest has not come yet
    unsent: int  # bytes of replies that the peer has not taken yet
    bytes_in: int
    bytes_out: int


class Channel(Protocol):
    """A connection as the engine sees it."""

    def flush(self) -> None:
        """Take the replies of the client and send them."""

    def send(self, chunks: list[bytes]) -> None:
        """Send replies that the journal held: the effects that they tell of are on disk now."""

    def fail(self, text: bytes) -> None:
        """Answer an error in place of replies that were not sent, because their effects may be lost, and end."""

    def resume(self) -> None:
        """Go on with requests that arrived while the client was blocked or paused."""

    def resume_stalled(self) -> None:
        """Go on with requests that waited because the disk was slow."""

    def close(self) -> None:
        """End the connection."""

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the connection."""


class ClosedChannel:
    """What a client has in place of a connection that has ended."""

    def flush(self) -> None:
        """Send nothing."""

    def send(self, chunks: list[bytes]) -> None:
        """Send nothing."""

    def fail(self, text: bytes) -> None:
        """Say nothing."""

    def resume(self) -> None:
        """Go on with nothing."""

    def resume_stalled(self) -> None:
        """Go on with nothing."""

    def close(self) -> None:
        """End nothing."""

    def figures(self) -> ChannelFigures:
        """Say that there is nothing."""
        return ChannelFigures(-1, 0, 0, 0, 0, 0, 0)


CLOSED: Final = ClosedChannel()
