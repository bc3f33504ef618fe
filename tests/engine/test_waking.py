"""Who is answered first when a write wakes readers."""

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
