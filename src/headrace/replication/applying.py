"""Repeating the stream of a master: bytes in, changed data, the same bytes for journal and followers.

    chunk ─► MasterStream ─► Applier, one command after the other ─► EffectLog.forward, once for the chunk
                                       └─ refused: named in the log, counted, and not for the journal

A chunk is applied in one turn, so that nobody sees a part of a transaction. Clients are served when the journal has the
bytes: their replies are held until they are safe, as on a master.
"""

from typing import Final

from headrace.core.errors import HeadraceError
from headrace.engine.applier import Applier
from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.formats.aof import AofReader
from headrace.replication.master_stream import MasterStream
from headrace.storage.log import Log
from headrace.storage.tail import shown

_EVERYTHING: Final = 1 << 62
_LISTED: Final = 10  # of commands that are refused, how many are named one by one


class CannotApply(HeadraceError):
    """The master has sent something that cannot be skipped; the text is one sentence."""


class MasterApplier:
    """Repeats the stream of one master after the other on an engine."""

    def __init__(self, engine: Engine, log: Log) -> None:
        self.refused = 0  # commands that could not be repeated
        self._engine = engine
        self._log = log
        self._applier = Applier(engine, engine.clocks.unix_ms())
        self._stream = MasterStream()

    @property
    def unfinished(self) -> int:
        """How many bytes have come of a unit that is not complete yet."""
        return self._stream.unfinished

    @property
    def database(self) -> int:
        """The database that the master has selected."""
        return self._applier.client.db.number

    def begin(self) -> None:
        """Begin behind the last unit that the effect log has; what had come of another one is dropped."""
        self._stream = MasterStream()
        databases = self._engine.databases
        number = max(self._engine.effects.selected, 0)
        self._applier.client.db = databases[number if number < len(databases) else 0]

    def check_database(self) -> None:
        """Raise where what comes is for a database that is not here."""
        if self._engine.effects.selected >= len(self._engine.databases):
            raise self._no_such_database(str(self._engine.effects.selected))

    def _no_such_database(self, number: str) -> CannotApply:
        return CannotApply(
            f"it selects database {number}, and there are only {len(self._engine.databases)} here: start with more "
            "--databases"
        )

    def apply(self, chunk: bytes, master: Client | None = None) -> int | None:
        """Repeat what has come; return the offset that the master wants to be acknowledged, where it asks.

        Clients that monitor see it as what the client `master` does.

        Where this raises CannotApply, all before the command that cannot be passed over was repeated.
        """
        engine, applier, stream = self._engine, self._applier, self._stream
        stream.take(chunk)
        applier.now_ms = engine.clocks.unix_ms()
        failure: CannotApply | None = None
        while failure is None and applier.run_many(stream, _EVERYTHING) and applier.error is not None:
            failure = self._refuse(applier.refused, applier.error)
        for channel, message, of_shard in stream.messages:
            (engine.exchange.publish_to_shard if of_shard else engine.exchange.publish)(channel, message)
        asked = None if stream.asked_at < 0 else engine.effects.offset + stream.asked_at
        for repeated, data, database in stream.finish(self.database):
            if repeated:
                if master is not None and engine.observers.monitors.clients:
                    self._show(master, data)
                engine.effects.forward(data, database)
            else:
                engine.effects.skip(data)
        applier.serve_clients()
        if failure is not None:
            raise failure
        return asked

    def _show(self, master: Client, units: bytes) -> None:
        """Show clients that monitor what a master has sent, before it is forwarded."""
        engine, reader = self._engine, AofReader(units)
        master.db = engine.databases[max(engine.effects.selected, 0)]
        while (argv := reader.next()) is not None:
            if argv[0].upper() == b"SELECT":
                master.db = engine.databases[int(argv[1])]
            command = engine.commands.named_by(argv)
            if command is not None:
                engine.observers.monitors.show(master, command, argv)

    def _refuse(self, argv: list[bytes], error: bytes) -> CannotApply | None:
        why = error.decode("utf-8", "backslashreplace")
        if why.startswith("ERR unknown command"):
            why = "there is no such command"
        if argv[0].upper() == b"SELECT":
            self._stream.stop_before_last()
            return self._no_such_database(argv[-1].decode("latin-1"))
        self._stream.refuse_last(self.database)
        self.refused += 1
        if self.refused <= _LISTED:
            self._log.warning(f"The master sent {shown(argv)}, which cannot be repeated here: {why}. It is left out.")
        elif self.refused == _LISTED + 1:
            self._log.warning("More commands of the master cannot be repeated; they are counted and not listed.")
        return None
