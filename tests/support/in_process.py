"""An engine in the test's own process: a clock to set, clients without sockets, and the effects."""

from headrace.commands.all import make_engine
from headrace.engine.channel import ClosedChannel
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from support.effects import Effect, Effects


class Nowhere(ClosedChannel):
    """The channel of a client that has no connection."""


class InProcessClient:
    """A client of an engine. A command that waits has no reply yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.client = engine.connect(Nowhere())

    def run(self, *words: str | bytes | int) -> bytes:
        """Run a command and return what there is of its reply, raw."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self._engine.execute(self.client, argv)
        return self.reply()

    def reply(self) -> bytes:
        return b"".join(self.client.reply.take())

    @property
    def waits(self) -> bool:
        return self.client.wait is not None


class InProcess(InProcessClient):
    """An engine, its clock, its effects, and a first client."""

    def __init__(self) -> None:
        engine = make_engine(Config())
        super().__init__(engine)
        self.engine = engine
        self.recorded = Effects(engine)

    def connect(self) -> InProcessClient:
        return InProcessClient(self.engine)

    def waiting_client(self, *words: str | bytes | int) -> InProcessClient:
        """Connect a client that waits for what the command asks."""
        client = self.connect()
        assert client.run(*words) == b""
        assert client.waits
        return client

    def set_clock(self, now_ms: int) -> None:
        """Let it be this time from now on, by both clocks, without anything noticing yet."""
        self.engine.clocks.unix_source = self.engine.clocks.steady_source = lambda: now_ms

    def set_unix_time(self, now_ms: int) -> None:
        """Let somebody set the machine's clock: no time passes."""
        self.engine.clocks.unix_source = lambda: now_ms

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last time, each with the number of its database."""
        return self.recorded.take()
