"""Why nothing can be written now: several parts may have a reason, and a client is told the first.

Commands look at one slot, `engine.write_refusal`, which is computed here whenever a reason comes or goes. The order of
the causes is that in which redis-server looks at them.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


class Cause(IntEnum):
    """The causes to refuse writes; the first that holds gives the sentence."""

    DISK = 0  # it does not take what is written, or no snapshots
    REPLICAS = 1  # fewer than `min-replicas-to-write` are there
    CONFIRMATION = 2  # fewer than `min-replicas-to-confirm` are there
    READ_ONLY = 3  # this server is a replica


class WriteRefusals:
    """See the module."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._texts: list[bytes | None] = [None] * len(Cause)

    def set(self, cause: Cause, text: bytes | None) -> None:
        """Refuse writes with a sentence, or with None no longer for this cause."""
        self._texts[cause] = text
        self._engine.write_refusal = next((each for each in self._texts if each is not None), None)

    def __getitem__(self, cause: Cause) -> bytes | None:
        return self._texts[cause]
