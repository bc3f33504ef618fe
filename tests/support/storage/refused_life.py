"""A life (see crash_life) on a disk that refuses: from one operation on, so many in a row.

    refusal      the first operation that is refused, how many are, with which error, and whether the write before it
                 takes only half of what it is given, as a disk that has just become full does

While the disk refuses, and after it, no command fails in an unforeseen way, every refusal names the disk's reason, and
everything that was acknowledged is there after a crash. When the disk accepts writes again, so does the server, without
help.
"""

import os
from dataclasses import dataclass

from support.in_process import InProcessClient
from support.storage.crash_life import NEVER, Life, LostData, Process
from support.storage.crash_workload import Command
from support.storage.simulated_disk import SimulatedDisk

MOST_TICKS = 20  # until the disk must have got everything


@dataclass(frozen=True)
class Refusal:
    """See the module."""

    first: int
    count: int
    error: int
    half: bool = False

    @property
    def reason(self) -> str:
        return os.strerror(self.error)


class NotTold(AssertionError):
    """A refusal that did not name its reason."""


class RefusedLife(Life):
    """See the module."""

    def __init__(self, seed: str, refusal: Refusal | None, policy: str) -> None:
        super().__init__(seed, cut_likelihood=0, ways=1)
        self.refusal = refusal
        self.settings["appendfsync"] = policy
        self.operation = 0
        self.refused: list[str] = []  # the operations
        self.told = ""  # all that anybody was told
        self.cuts_left = 2
        self.incomplete = False
        self.failed = False  # the journal was refused something

    # --- the disk --------------------------------------------------------------------------------------------------

    def _before_change(self) -> None:
        if not self.starting:
            self._note_promises()
        self.operation += 1
        refusal = self.refusal
        if refusal is None:
            return
        if refusal.half and self.operation == refusal.first - 1 and self.disk.attempted.startswith("write"):
            self.disk.take_half_of_next_write()
        if refusal.first <= self.operation < refusal.first + refusal.count:
            self.refused.append(self.disk.attempted)
            raise OSError(refusal.error, refusal.reason)

    @property
    def is_over(self) -> bool:
        """Whether the disk takes everything from now on."""
        return self.refusal is None or self.operation >= self.refusal.first + self.refusal.count - 1

    # --- starting --------------------------------------------------------------------------------------------------

    def _start(self, disk: SimulatedDisk | None = None, least: int = 0) -> None:
        super()._start(disk, least)
        self.kill_likelihood = 0.0
        self.incomplete = False

    def _new_process(self, disk: SimulatedDisk) -> Process:
        while True:
            refused = len(self.refused)
            try:
                process = super()._new_process(disk)
                break
            except LostData as lost:
                if len(self.refused) == refused:
                    raise
                self.tally["starts that were refused"] += 1
                self.told += str(lost)
                self.disk = disk = disk.restarted()
        self.told += "\n".join(process.log.warnings)
        process.log.warnings.clear()
        return process

    # --- steps -----------------------------------------------------------------------------------------------------

    def _run(self, command: Command, client: InProcessClient | None = None) -> bytes:
        reply = super()._run(command, client)
        if reply.startswith(b"-"):
            self.told += reply.decode("ascii", "backslashreplace")
        return reply

    def _note_unit(self, position: int) -> None:
        super()._note_unit(position)
        if self.process.journal.incomplete and not self.process.journal.collecting:
            self.positions[-1] = NEVER  # it was not taken; the base to come has it

    def _note_promises(self) -> None:
        journal = self.process.journal
        self.failed |= journal.failing
        if journal.incomplete:
            self.incomplete = True
        elif self.incomplete:
            self.incomplete = False
            self.positions[:] = [0 if position == NEVER else position for position in self.positions]
        if journal.failing:  # the policy may have become `always` since, and nothing was synced for it
            self.promised = max(self.promised, self._reached(journal.synced))
        else:
            super()._note_promises()

    def _step(self) -> None:
        refused = len(self.refused)
        super()._step()
        self._listen()
        if len(self.refused) > refused and self.cuts_left:
            self.cuts_left -= 1
            self._cut_power()

    def _adopt_snapshot(self) -> None:
        """Leave that to the tests of the link, which writes the snapshot and hears of it when the disk refuses."""

    def _change_policy(self) -> None:
        policy = self.random.choice(("always", "everysec", "no"))
        if self._run([b"CONFIG", b"SET", b"appendfsync", policy.encode()]) == b"+OK\r\n":
            self.settings["appendfsync"] = policy

    def _switch_journal(self) -> None:
        process = self.process
        wanted = b"no" if process.store.appends else b"yes"
        process.commit()
        self._note_promises()
        self._listen()
        failing, told = process.journal.failing, len(self.told)
        accepted = self._run([b"CONFIG", b"SET", b"appendonly", wanted]) == b"+OK\r\n"
        self._follow_effects()
        self._listen()
        failing |= "The disk refuses" in self.told[told:]
        if failing and not process.store.appends:  # what the disk refused is not brought out any more
            self.incomplete = False
            self.positions[self.promised + 1 :] = [NEVER] * (len(self.positions) - self.promised - 1)
        if wanted == b"yes" and accepted:
            self.promised = len(self.history) - 1
            self.positions[:] = [0] * (self.promised + 1)

    def _restart(self) -> None:
        if self.random.random() < 0.4:
            self._note_promises()
            self._start(self.disk.power_cut(self.random))
            return
        journal, appends = self.process.journal, self.process.store.appends
        self._note_promises()
        least = self._reached(journal.safe)
        self.starting = True  # nothing is promised any more
        told = len(self.told)
        self.process.store.close()
        self._listen()
        if appends and "are lost" not in self.told[told:]:
            least = len(self.history) - 1
        self._start(self.disk.restarted(), least=least)

    def _listen(self) -> None:
        self.told += "\n".join(self.process.log.warnings)
        self.process.log.warnings.clear()

    def _live(self, steps: int) -> None:
        super()._live(steps)
        refusal, self.refusal = self.refusal, None
        self._resume_service()
        if refusal is not None and self.failed and refusal.reason not in self.told:
            raise NotTold(f"Nobody was told that the disk refused: {self.refused}\n{self.told}")

    def _finish_writing(self) -> None:
        self.process.commit()
        while self.process.journal.busy:
            self.process.let_worker_work()
        self._note_promises()

    def _finish_jobs(self) -> None:
        while self.process.jobs:
            self.process.let_thread_work()

    def _resume_service(self) -> None:
        """Find that everything can be written again, soon after the disk takes it."""
        for _ in range(MOST_TICKS):
            self._tick()
            self._finish_jobs()
            self._finish_writing()
        self._listen()
        process = self.process
        if process.store.appends:
            reply = self._run([b"XADD", b"after", b"*", b"f", b"v"])
            self._finish_writing()
            if reply.startswith(b"-") or process.journal.safe < process.journal.position or process.journal.failing:
                raise LostData(f"Writes are still refused: {reply!r}")
        for command in ([b"SAVE"], [b"BGSAVE", b"SCHEDULE"], [b"BGREWRITEAOF"]):
            reply = self._run(command)
            if reply.startswith(b"-") and b"in progress" not in reply:  # one that began by itself
                raise LostData(f"{command[0].decode()} is still refused: {reply!r}")
            for _ in range(3):
                self._tick()
                self._finish_jobs()
                self._finish_writing()
        wrong = [each for each in process.log.warnings if "could not" in each or "refuses" in each]
        if wrong:
            raise LostData(f"The disk takes everything, and yet: {wrong}")
        left = [
            name
            for path in (self.disk.root, self.disk.root / "appendonlydir")
            if self.disk.exists(path)
            for name in self.disk.list(path)
            if name.startswith("temp-")
        ]
        if left:
            raise LostData(f"Files that nobody reads are left: {left}")
        self._cut_power()
