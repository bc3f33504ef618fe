"""Side keys at which something is due: which is first, and its turn when the time has come.

    a side key changes ─► when is it due? ─► heap of (ms, database, key) ─► a chore ─► `work`, a slice at a time

The first is found at once, and nothing looks at keys that are not due: each has one place in the heap, however much it
holds. Whatever changes a key changes its place, too (engine.side_keys).

Keys that are due have their turns one after another, a slice each, so that one with a million late messages does not
keep another waiting. A turn of the chore does about `TURN` messages, and the next is a millisecond later: clients are
served in between.

A key whose work is refused is held: it is tried again a second later, and the log says so once for each reason. Where a
master decides (on a replica) the chore sleeps; it wakes when this server is promoted. While data is loading, while
writes are refused or paused, it looks again a tenth of a second later.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import ColdReadError
from headrace.engine.chores import PAUSE_MS
from headrace.engine.errors import INTERNAL_ERROR, OUT_OF_MEMORY, CommandError
from headrace.engine.side_keys import side_key

if TYPE_CHECKING:
    from headrace.engine.call import Call
    from headrace.engine.database import Database
    from headrace.engine.engine import Engine

TURN: Final = 50  # messages: some 0.5 ms
HOLD_MS: Final = 1000  # before what was refused is tried again

_NUMBERS: Final = 10_000  # tickets of a millisecond

Place = tuple[int, bytes]  # the number of a database, and a stream whose side key is meant


class DueKeys:
    """The side keys of one kind; see the module."""

    def __init__(
        self,
        engine: "Engine",
        kind: bytes,
        *,
        due_of: Callable[[Place, Any], int | None],
        work: Callable[["Call", bytes], None],
        in_unix_time: bool,
    ) -> None:
        """`due_of` says when a place is due, from the value of its side key; `work` is told the stream.

        `work` changes at most `left` messages and takes them off `left`. It raises CommandError where it can do
        nothing.
        """
        self.left = 0
        self._work = work
        self._engine = engine
        self._kind = kind
        self._refusal: bytes | None = None  # of the work that was tried last
        self._due_of = due_of
        self._in_unix_time = in_unix_time
        self._due: dict[Place, int] = {}
        self._heap: list[tuple[int, int, bytes]] = []  # some of them out of date
        self._ready: dict[Place, None] = {}  # due, in the order of their turns
        self._held: dict[Place, tuple[int, bytes]] = {}  # until when, and why
        self._chore = engine.chores.register(self._take_turn, in_unix_time=in_unix_time, pause_ms=0)
        engine.side_keys.due[kind] = self
        engine.side_keys.watch(kind, self)
        engine.hooks.promotion.append(self._expect_first)

    # --- which is due ------------------------------------------------------------------------------------------

    def changed(self, db: "Database", side: bytes, key: bytes) -> None:
        """Look at a side key again: it has come, changed or gone."""
        place = (db.number, key)
        value = db.values.get(side)
        due = None if value is None else self._due_of(place, value)
        if due is None:
            self._due.pop(place, None)
            self._held.pop(place, None)
            self._ready.pop(place, None)
            return
        if place in self._held:
            due = max(due, self._held[place][0])
        if self._due.get(place) != due:
            self._due[place] = due
            if place not in self._ready:
                self._push(place, due)

    def cleared(self, db: "Database") -> None:
        """Forget a database: it has no keys any more."""
        for places in (self._due, self._held, self._ready):
            for place in [place for place in places if place[0] == db.number]:
                del places[place]

    def swapped(self, db: "Database", other: "Database") -> None:
        """Exchange what is known of two databases."""
        numbers = {db.number: other.number, other.number: db.number}
        moved = [(place, due) for place, due in self._due.items() if place[0] in numbers]
        held = {place: self._held.pop(place) for place, _ in moved if place in self._held}
        for place, _ in moved:
            del self._due[place]
            self._ready.pop(place, None)
        for place, due in moved:
            there = (numbers[place[0]], place[1])
            self._due[there] = due
            if place in held:
                self._held[there] = held[place]
            self._push(there, due)

    def held_for(self, place: Place) -> bytes | None:
        """Say why a place is held; None where it is not."""
        held = self._held.get(place)
        return None if held is None else held[1]

    def _push(self, place: Place, due: int) -> None:
        heappush(self._heap, (due, *place))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(when, *each) for each, when in self._due.items() if each not in self._ready]
            heapify(self._heap)
        if self._heap[0][0] == due:
            self._chore.expect(due)

    def _first_due(self) -> int | None:
        while self._heap:
            due, number, key = self._heap[0]
            if self._due.get((number, key)) == due and (number, key) not in self._ready:
                return due
            heappop(self._heap)
        return None

    def _expect_first(self) -> None:
        due = self._now() if self._ready else self._first_due()
        if due is not None:
            self._chore.expect(due)

    def _now(self) -> int:
        return self._engine.clocks.now_ms if self._in_unix_time else self._engine.clocks.steady_now_ms

    # --- turns -------------------------------------------------------------------------------------------------

    def _take_turn(self) -> int | None:
        engine, now_ms = self._engine, self._now()
        if engine.is_replica:
            return None  # promotion wakes it
        if engine.loading or engine.refusals.writes is not None or engine.pauses.are_on():
            return now_ms + PAUSE_MS
        while (due := self._first_due()) is not None and due <= now_ms:
            _, number, key = heappop(self._heap)
            self._ready[number, key] = None
        self.left = TURN
        while self._ready and self.left > 0:
            self._run_slice(next(iter(self._ready)), now_ms)
        return now_ms if self._ready else self._first_due()

    def _run_slice(self, place: Place, now_ms: int) -> None:
        """Give a place its turn, and then a place behind the others, or in the heap."""
        number, key = place
        db = self._engine.databases[number]
        left = self.left
        self._refusal = INTERNAL_ERROR  # unless the work comes to its end
        self._engine.act(db, self._attempt, key)
        self.left = min(self.left, left - 1)
        self._ready.pop(place, None)
        if self._refusal is not None:
            self._hold(place, self._refusal, now_ms)
        else:
            self._held.pop(place, None)
        self._due.pop(place, None)
        self.changed(db, side_key(key, self._kind), key)

    def _attempt(self, call: "Call", key: bytes) -> None:
        try:
            self._work(call, key)
            self._refusal = None
        except CommandError as refusal:
            self._refusal = refusal.text
        except ColdReadError as error:
            self._refusal = str(error).encode()
        except MemoryError:
            self._refusal = OUT_OF_MEMORY

    def _hold(self, place: Place, reason: bytes, now_ms: int) -> None:
        if self.held_for(place) != reason:
            shown = place[1].decode("utf-8", "backslashreplace")
            self._engine.hooks.warning(
                f"What is {self._kind.decode()} for {shown!r} waits, and nothing of it is lost: "
                f"{reason.decode('utf-8', 'backslashreplace')}. It is tried again each second."
            )
        self._held[place] = (now_ms + HOLD_MS, reason)


class Tickets:
    """Names for what the server does later, each greater than the one before, also after the clock was set back.

    1763287546123-0000      the Unix ms at which it was given, and a number; of a fixed width, so that texts sort
    """

    def __init__(self) -> None:
        self._last = (0, 0)

    def take(self, now_ms: int) -> bytes:
        """Return a new one."""
        ms, number = self._last
        self._last = (now_ms, 0) if now_ms > ms else (ms, number + 1) if number + 1 < _NUMBERS else (ms + 1, 0)
        return b"%013d-%04d" % self._last
