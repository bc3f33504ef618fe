"""Effects as tests like to see them: each with the number of its database."""

from headrace.engine.effect_log import CallbackSubscriber
from headrace.engine.engine import Engine
from headrace.formats.aof import AofReader

Effect = tuple[int, list[bytes]]


class Effects:
    """A subscriber that keeps the units of an engine's effects."""

    def __init__(self, engine: Engine) -> None:
        self.units: list[list[Effect]] = []
        self._database = -1
        engine.effects.subscribe(CallbackSubscriber(self._take))

    def _take(self, data: bytes) -> None:
        reader = AofReader(data)
        unit: list[Effect] = []
        while (argv := reader.next()) is not None:
            if argv[0] == b"SELECT":
                self._database = int(argv[1])
            elif argv[0] not in (b"MULTI", b"EXEC"):
                unit.append((self._database, argv))
        assert reader.position == len(data)
        self.units.append(unit)

    def take(self) -> list[Effect]:
        """Return the effects since the last time."""
        taken = [effect for unit in self.units for effect in unit]
        self.units.clear()
        return taken
