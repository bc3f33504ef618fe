"""Episodes of random commands on streams, keys and transactions, by several clients of Headrace and a redis-server."""

from contextlib import ExitStack, closing

from support.episode import Episode
from support.random_commands import Command, CommandWriter
from support.raw_client import RawClient
from support.twins import Twins

# (stream-node-max-bytes, stream-node-max-entries)
NODE_LIMITS = ((4096, 100), (4096, 3), (4096, 1), (0, 0), (100, 10))


class StreamEpisode(Episode):
    """Commands of several clients on streams and keys."""

    commands = 500
    node_limits: tuple[tuple[int, int], ...] = NODE_LIMITS

    def __init__(self, seed: int, headrace_port: int, redis_port: int, stack: ExitStack) -> None:
        self.writer = CommandWriter(seed)
        super().__init__(seed, self.writer)
        max_bytes, max_entries = self.node_limits[seed % len(self.node_limits)]
        for port in (headrace_port, redis_port):
            with RawClient(port) as client:
                client.run("FLUSHALL")
                client.run("CONFIG", "SET", "stream-node-max-bytes", max_bytes)
                client.run("CONFIG", "SET", "stream-node-max-entries", max_entries)
        *self.clients, self.overseer = [
            stack.enter_context(closing(Twins(headrace_port, redis_port, protocol))) for protocol in (2, 3, 2, 3, 3)
        ]

    def take_step(self) -> None:
        number = self.random.choices(range(len(self.clients)), (6, 6, 1, 1))[0]
        twins = self.clients[number]
        command = self.choose(twins)
        if not twins.may_be_asked(command):
            return
        self.latest.append(f"client {number}: " + " ".join(map(repr, command)))
        reply = twins.ask(command)
        self.count(command, reply)
        name = command[0].lower()
        if name == b"dump" and isinstance(reply, str) and reply.startswith("$") and reply != "$-1":
            self.writer.payloads.append(reply[1:].encode("latin-1"))
        if name == b"exec" and isinstance(reply, list):
            self.align_everything()

    def choose(self, twins: Twins) -> Command:
        """Choose what a client sends: seldom a word about transactions, else a command, sometimes a wrong one."""
        roll = self.random.random()
        if twins.queued is None and roll < 0.04:
            return [self.random.choice((b"MULTI", b"MULTI", b"WATCH", b"EXEC", b"UNWATCH", b"DISCARD"))] + (
                [] if roll < 0.03 else [b"s1"]
            )
        if twins.queued is not None and roll < 0.2:
            return [self.random.choice((b"EXEC", b"EXEC", b"EXEC", b"EXEC", b"DISCARD", b"MULTI", b"UNWATCH"))]
        if roll < 0.07:
            return [b"WATCH", b"s1", b"s2"]
        return self.write(roll)

    def align_everything(self) -> None:
        """Tell 7.0.15 after a transaction what it could not be told in between."""
        for database in (b"0", b"1"):
            self.overseer.ask([b"SELECT", database])
            for key in self.overseer.list_keys():
                self.overseer.align_counts(key, capped=False)

    def compare_everything(self) -> None:
        """Compare all that can be asked about every key."""
        for database in (b"0", b"1"):
            self.overseer.ask([b"SELECT", database])
            self.overseer.ask([b"KEYS", b"*"])
            for key in self.overseer.list_keys():
                for command in ([b"TYPE", key], [b"PTTL", key], [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]):
                    self.latest.append(" ".join(map(repr, command)))
                    self.overseer.ask(command)
