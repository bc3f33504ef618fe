"""Programs with sentinel:// urls while Debian's Sentinels fail over between Headrace servers: nothing is lost."""

import asyncio
import signal
import threading
from pathlib import Path

import headrace
from headrace import CannotConnect, ConnectionLost, Database
from support.campaign import LONG
from support.patience import await_that
from support.replication.sentinels import ConfiguredProcess, watched_servers

LAST = -1


class Program:
    """A producer, a worker in a thread and one in an event loop, all of which only know the Sentinels."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.added: list[str] = []
        self.handled: list[int] = []
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._work, self._work_async)]
        self.failures: list[BaseException] = []
        for thread in self._threads:
            thread.start()

    def _connect(self) -> Database:
        return headrace.connect(self.url, timeout=2, patience=60)

    def _produce(self) -> None:
        """Add each number under its own name until that is acknowledged, so that none is there twice."""
        try:
            with self._connect() as db:
                while not self.ended.is_set():
                    number = len(self.added)
                    try:
                        id = db.stream("s").add(n=number, idmp=("producer", number))
                    except (ConnectionLost, CannotConnect):
                        continue
                    self.added.append(str(id))
                for _ in range(2):
                    db.stream("s").add(n=LAST)
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            self.failures.append(error)

    def _work(self) -> None:
        try:
            with self._connect() as db:
                for message in db.stream("s").group("g").consumer("thread", claim_after=5, heartbeat=1):
                    self.handled.append(int(message["n"]))
                    if self.handled[-1] == LAST:
                        break
        except BaseException as error:  # noqa: BLE001
            self.failures.append(error)

    def _work_async(self) -> None:
        async def main() -> None:
            async with headrace.connect_async(self.url, timeout=2, patience=60) as db:
                group = await db.stream("s").agroup("g")
                async for message in group.consumer("task", claim_after=5, heartbeat=1):
                    self.handled.append(int(message["n"]))
                    if self.handled[-1] == LAST:
                        break

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001
            self.failures.append(error)

    def await_more(self) -> None:
        """Return when a good number of messages more were acknowledged, and handled."""
        added, handled = len(self.added) + 20, len(self.handled) + 20
        await_that(lambda: bool(self.failures) or (len(self.added) >= added and len(self.handled) >= handled))
        assert not self.failures, self.failures

    def end(self) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures


def confirm_with(server: ConfiguredProcess, replicas: int) -> None:
    """Have writes wait for so many replicas: all that there are, so that whom a Sentinel chooses has everything."""
    with server.client() as client:
        client.config_set("min-replicas-to-confirm", replicas)


def test_nothing_acknowledged_is_lost_when_a_master_is_stopped_or_killed(tmp_path: Path) -> None:
    with watched_servers(tmp_path) as watched:
        first, _never, last = watched.servers
        confirm_with(first, 2)
        program = Program(watched.url)
        try:
            program.await_more()
            first.send(signal.SIGSTOP)  # it answers no more, and does not know that it is no master
            assert watched.await_master_other_than(first) is last
            confirm_with(last, 1)
            program.await_more()
            first.send(signal.SIGCONT)
            program.await_more()
            if LONG:
                await_that(watched.is_settled)
                confirm_with(last, 2)
                program.await_more()
                last.kill()
                assert watched.await_master_other_than(last) is first
                confirm_with(first, 1)
                program.await_more()
        finally:
            program.end()
        with headrace.connect(watched.url) as db:
            there = [(str(message.id), int(message["n"])) for message in db.stream("s") if message["n"] != str(LAST)]
            assert there == list(zip(program.added, range(len(program.added)), strict=True))
        assert set(range(len(program.added))) <= set(program.handled)
