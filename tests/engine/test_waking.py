"""Which client is answered first when a write wakes readers, and which are checked when the disk has more."""

from collections.abc import Iterator

from headrace.engine.blocking.waking import disk_has_more
from headrace.engine.client import Client
from headrace.engine.persistence import Persistence
from support.in_process import InProcess, InProcessClient, Nowhere


class Noted(Nowhere):
    """A channel that notes when it had something to send, and of whom."""

    def __init__(self, name: str, sent: list[str]) -> None:
        self.name = name
        self.sent = sent
        self.client: InProcessClient | None = None

    def flush(self) -> None:
        assert self.client is not None
        if self.client.reply():
            self.sent.append(self.name)


def test_readers_have_their_replies_before_the_writer_in_the_order_they_came() -> None:
    host = InProcess()
    sent: list[str] = []
    clients = {}
    for name in ("first reader", "second reader", "writer"):
        clients[name] = client = host.connect()
        client.client.channel = channel = Noted(name, sent)
        channel.client = client
    for name in ("first reader", "second reader"):
        clients[name].run("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
    host.engine.flush_clients()
    assert sent == []
    host.engine.execute(clients["writer"].client, [b"XADD", b"s", b"1-1", b"f", b"v"])
    host.engine.flush_clients()
    assert sent == ["first reader", "second reader", "writer"]


# --- the disk --------------------------------------------------------------------------------------------------


class DiskAt(Persistence):
    """Append-only files of which a test says how far they are written and synced."""

    def __init__(self) -> None:
        super().__init__()
        self.noted = self.on_disk = 0
        self.is_on = True

    @property
    def appends(self) -> bool:
        return self.is_on

    @property
    def position(self) -> int:
        return self.noted

    @property
    def synced(self) -> int:
        return self.on_disk


class NeverWalked(dict[Client, None]):
    """A collection of waiting clients that fails when somebody walks over all of them."""

    def __iter__(self) -> Iterator[Client]:
        raise AssertionError("every blocked client was asked")


def test_a_sync_serves_those_whose_effects_it_covers_and_asks_nobody_else() -> None:
    """With 10,000 blocked clients each completed sync asked all of them."""
    engine = InProcess()
    engine.engine.persistence = disk = DiskAt()
    engine.engine.waiting.clients = NeverWalked()
    others = [engine.connect() for _ in range(10)]
    for other in others:
        other.run("BLPOP", "l", 0)
    waiters = []
    for disk.noted in (30, 10, 20):
        waiters.append(engine.connect())
        waiters[-1].run("WAITAOF", 1, 0, 0)
    replicas = engine.connect()
    replicas.run("WAITAOF", 1, 1, 0)
    disk.on_disk = 25
    disk_has_more(engine.engine)
    assert [client.waits for client in waiters] == [True, False, False]
    assert waiters[1].reply() == waiters[2].reply() == b"*2\r\n:1\r\n:0\r\n"
    disk.on_disk = 30
    disk_has_more(engine.engine)
    assert waiters[0].reply() == b"*2\r\n:1\r\n:0\r\n"
    assert replicas.waits
    assert len(engine.engine.waiting.disk_waits) == 0
    assert all(other.waits for other in others)


def test_when_effects_are_written_no_more_only_those_who_wait_for_the_disk_are_asked() -> None:
    engine = InProcess()
    engine.engine.persistence = disk = DiskAt()
    engine.engine.waiting.clients = NeverWalked()
    other = engine.connect()
    other.run("BLPOP", "l", 0)
    waiters = [engine.connect() for _ in range(2)]
    disk.noted = 10
    waiters[0].run("WAITAOF", 1, 0, 0)
    waiters[1].run("WAITAOF", 1, 1, 0)
    disk.is_on = False
    disk_has_more(engine.engine)
    assert all(b"appendonly is disabled" in client.reply() for client in waiters)
    assert other.waits
    assert not engine.engine.waiting.awaiting_disk()
