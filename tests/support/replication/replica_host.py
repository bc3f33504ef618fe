"""A replica without a server around it: an engine, its store and a link, on an event loop in a thread."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.engine.configuration.config import Config
from headrace.replication.link import Link
from headrace.storage.assembly import assemble
from support.in_process import InProcessClient
from support.patience import PATIENCE_S, await_that
from support.storage.operator_log import OperatorLog

T = TypeVar("T")


class ReplicaHost:
    """Follows a server while it is entered; pauses between attempts are short."""

    def __init__(self, directory: Path, master_port: int, **settings: str) -> None:
        self._master_port = master_port
        self.log = OperatorLog()
        config = Config()
        given = {"dir": str(directory), "save": "", **{name.replace("_", "-"): v for name, v in settings.items()}}
        for name, value in given.items():
            config.load(name, [value])
        self.engine, self.journal, self.store = assemble(config, self.log)
        self.engine.begin_following()
        self._loop = asyncio.new_event_loop()
        self.link = Link(self.engine, self.store, self.log, self._loop)
        self.link.first_pause_s, self.link.longest_pause_s = 0.02, 0.1
        self._sent: dict[InProcessClient, bytearray] = {}
        self._client = InProcessClient(self.engine)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def _open(self) -> None:
        self.store.directory.lock()
        for _ in self.store.open():
            pass
        self.journal.schedule = lambda commit, _: self._loop.call_soon(commit)
        self._loop.add_reader(self.journal.fileno, self.journal.completed)
        self._tick()
        self.link.start("127.0.0.1", self._master_port)

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(0.05, self._tick)
        self.engine.tick()
        if not self.engine.loading:
            self.store.tick()

    def _close(self) -> None:
        self._ticking.cancel()
        self.link.stop()
        self._loop.remove_reader(self.journal.fileno)
        self.store.close()

    def call(self, work: Callable[[], T]) -> T:
        """Do something on the event loop's thread; return what it gives."""
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                done.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return done.result(PATIENCE_S)

    def run(self, *words: str | bytes | int) -> bytes:
        """Run a command; its reply, raw."""
        return self.call(lambda: self._client.run(*words))

    def client(self) -> InProcessClient:
        """Connect one more client; use it by `call`."""
        return self.call(lambda: InProcessClient(self.engine))

    def sent_to(self, client: InProcessClient) -> bytes:
        """All that a client was sent so far, but for what it was replied."""
        sent = self._sent.setdefault(client, bytearray())
        sent += self.call(client.reply)
        return bytes(sent)

    def fields(self) -> dict[str, Any]:
        """What INFO tells of the link."""
        return self.call(lambda: dict(self.link.fields()))

    @property
    def offset(self) -> int:
        return self.call(lambda: self.engine.effects.offset)

    def await_offset(self, offset: int) -> None:
        """Wait until the replica has applied everything up to an offset."""
        await_that(lambda: self.link.is_up and self.offset >= offset)

    def await_error(self, text: str) -> None:
        """Wait until INFO names a reason why there is no link."""
        await_that(lambda: text in self.fields().get("master_link_error", ""))
