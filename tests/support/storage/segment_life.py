"""The life of a directory of segments: written, referred to, named by bases, copied, removed; and power cuts anywhere.

    memory   what logs refer to: parts of runs, with the nodes that they must hold
    base     a file that names segments and parts of their runs, published by a rename, as a base of a store is

A plain model knows the nodes of every part. A power cut before any operation, in any way that a disk allows, must leave
the base that was published last, or one that was about to be, and every node of every part that it names, to the byte.
From some of these disks the life continues; what memory alone referred to is then gone, because a store would repeat it
from increments.
"""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from headrace.core.cold import ColdCache
from headrace.core.errors import ColdReadError
from headrace.storage.segments.compaction import LivePart, LiveStream, copy_live
from headrace.storage.segments.names import DIRECTORY
from headrace.storage.segments.segment import SegmentRun
from headrace.storage.segments.segment_set import SegmentSet
from support.storage.segment_samples import nodes_of, packed, some_nodes
from support.storage.simulated_disk import ProcessEnded, SimulatedDisk

ROOT = Path("/simulated")
BASE = ROOT / "base"
DEEPEST = 3


class Part(NamedTuple):
    """Nodes of a run that a log refers to, and their bytes."""

    run: SegmentRun
    begin: int
    end: int
    nodes: list[bytes]


class Named(NamedTuple):
    """A part as a base names it."""

    segment: int
    run: int
    checksum: int
    begin: int
    end: int

    @classmethod
    def of(cls, part: Part) -> "Named":
        return cls(part.run.segment.number, part.run.number, part.run.record.checksum, part.begin, part.end)


class SegmentLife:
    """One directory from its beginning on, or from a power cut on."""

    def __init__(
        self,
        seed: str,
        *,
        disk: SimulatedDisk | None = None,
        bases: list[list[tuple[Named, list[bytes]]]] | None = None,
        tally: Counter[str] | None = None,
        depth: int = 0,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.disk = disk or SimulatedDisk(ROOT)
        self.bases = bases if bases is not None else [[]]  # each that was begun to be published
        self.certain = len(self.bases) - 1 if disk is None else 0  # an older one is not there any more
        self.tally = tally if tally is not None else Counter()
        self.depth = depth
        self.cut_likelihood = 0.5 if depth == 0 else 0.1 if depth < DEEPEST else 0.0
        self.parts: list[Part] = []
        self.next_ms = 1

    def live(self, steps: int) -> None:
        """Start from what the disk has, and do something."""
        self.disk.before_change = self._before_change
        self._start()
        actions = (
            *[self._write] * 4,
            *[self._drop] * 3,
            *[self._publish] * 3,
            *[self._remove] * 2,
            *(self._compact, self._copy, self._check, self._restart),
        )
        for _ in range(steps):
            self.random.choice(actions)()
        self._check()

    # --- a process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Find the base, and see that it and all that it names is there."""
        self.segments = SegmentSet(self.disk, ROOT / DIRECTORY, ColdCache(0))
        found = self._read_base()
        matches = [index for index, base in enumerate(self.bases) if [named for named, _ in base] == found]
        assert matches, f"{self.seed}: a base that nobody wrote"
        assert matches[-1] >= self.certain, f"{self.seed}: base {matches[-1]} is there, but {self.certain} was certain"
        self.certain = matches[-1]
        numbers = {named.segment for named in found}
        try:
            self.segments.check_named(numbers)
            self.segments.pin("base", numbers)
            orphans = self.segments.remove_orphans()
            self.tally["orphans"] += len(orphans)
            self.parts = []
            for named, nodes in self.bases[self.certain]:
                run = self.segments.open(named.segment, named.run, named.checksum)
                self._keep(Part(run, named.begin, named.end, nodes))
        except ColdReadError as error:
            raise AssertionError(f"{self.seed}: {error}") from None
        self._check()

    def _read_base(self) -> list[Named]:
        if not self.disk.exists(BASE):
            return []
        return [Named(*each) for each in json.loads(bytes(self.disk.read(BASE)))]

    def _keep(self, part: Part) -> None:
        part.run.keep(part.end - part.begin, sum(map(len, part.nodes)))
        self.parts.append(part)

    def _forget(self, part: Part) -> None:
        self.parts.remove(part)
        part.run.drop(part.end - part.begin, sum(map(len, part.nodes)))

    # --- what happens ----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        contents = [some_nodes(self.random, self.random.randint(1, 4), 2, 12) for _ in range(self.random.randint(1, 2))]
        runs = self.segments.write([packed(nodes) for nodes in contents])
        if self.random.random() < 0.2:
            self._remove()  # while only its writer has it
        for run, nodes in zip(runs, contents, strict=True):
            if self.random.random() < 0.9:
                self._keep(Part(run, 0, run.nodes, [listpack for _, listpack in nodes]))
        self.segments.settle(runs)
        self.tally["written"] += 1

    def _drop(self) -> None:
        """Trim a part, or drop it."""
        if not self.parts:
            return
        part = self.random.choice(self.parts)
        self._forget(part)
        if part.end - part.begin > 1 and self.random.random() < 0.6:
            cut = self.random.randint(1, part.end - part.begin - 1)
            self._keep(part._replace(begin=part.begin + cut, nodes=part.nodes[cut:]))

    def _copy(self) -> None:
        """Let another log refer to the same."""
        if self.parts:
            self._keep(self.random.choice(self.parts))

    def _publish(self) -> None:
        """Write a base that names all parts, and put it in force, as Rewriting and AppendFiles do."""
        segments = self.segments
        named = segments.in_use()
        segments.pin("child", named)
        base = [(Named.of(part), part.nodes) for part in self.parts]
        temporary = BASE.with_name("temp-base")
        file = self.disk.create(temporary, replace=True)
        self.disk.append(file, json.dumps([name for name, _ in base]).encode())
        self.disk.sync(file)
        self.disk.close(file)
        if self.random.random() < 0.3:  # meanwhile the data changes
            self._drop()
            self._remove()
        segments.pin("base", segments.pinned_by("base") | named)
        self.bases.append(base)
        self.disk.rename(temporary, BASE)
        self.disk.sync_directory(ROOT)
        self.certain = len(self.bases) - 1
        segments.pin("base", named)
        segments.unpin("child")
        self.tally["published"] += 1

    def _remove(self) -> None:
        self.tally["removed"] += self.segments.remove_unneeded()

    def _compact(self) -> None:
        dead = {segment.number for segment in self.segments.mostly_dead()}
        moving = [part for part in self.parts if part.run.segment.number in dead]
        streams = [LiveStream(0, b"stream", [LivePart(part.run, part.begin, part.end)]) for part in moving]
        moved = copy_live(self.segments, streams)
        assert len(moved) == len(moving)
        for part, new in zip(moving, moved, strict=True):
            self._forget(part)
            self._keep(Part(new.run, new.begin, new.begin + part.end - part.begin, part.nodes))
        self.segments.settle([each.run for each in moved])
        self.tally["compacted"] += len(moved) > 0

    def _check(self) -> None:
        """See that memory reads what it refers to."""
        for part in self.parts:
            assert nodes_of(part.run, part.begin, part.end) == part.nodes, self.seed

    def _restart(self) -> None:
        """End the process, or cut the power, and start another."""
        if self.random.random() < 0.5:
            self.disk = self.disk.restarted()
        else:
            self.disk = self.disk.power_cut(self.random)
        self.disk.before_change = self._before_change
        self._start()

    # --- power cuts ------------------------------------------------------------------------------------------------

    def _before_change(self) -> None:
        if self.random.random() >= self.cut_likelihood:
            return
        operation = self.disk.attempted.split()[0]
        for way in range(2 if self.depth == 0 else 1):
            seed = f"{self.seed} / {len(self.disk.operations)} {way}"
            self.tally["states"] += 1
            self.tally[f"before {operation}"] += 1
            other = SegmentLife(
                seed,
                disk=self.disk.power_cut(Random(seed)),
                bases=list(self.bases),
                tally=self.tally,
                depth=self.depth + 1,
            )
            other.certain = self.certain
            try:
                other.live(other.random.randint(1, 6) if other.random.random() < 0.1 else 0)
            except ProcessEnded:  # pragma: no cover - nobody ends these
                raise AssertionError(seed) from None
