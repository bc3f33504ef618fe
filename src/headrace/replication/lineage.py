"""INFO lineage of a master: the histories that its data has been through, and the servers that it follows.

    our histories       A ──────── 5000 ┬ B ──── 7200 ┬ C ──── 9000
    those of a master   A ──────── 5000 ┴ B ──── 7200 ┴ D ──── 8000
                                                      └ the branch: what is behind it, the master never got

The youngest history that both have been through shows where they parted: where the first of both left it.

A circle of replicas is found by names: a server that follows another learns the run IDs of all servers above that one.
Its own must not be among them.
"""

from typing import NamedTuple

from headrace.engine.effect_log import EffectLog


class Lineage(NamedTuple):
    """The answer of a server; empty where it is no Headrace."""

    run_id: str = ""
    masters: tuple[str, ...] = ()  # run IDs: the server that it follows, the one that this one follows, …
    histories: tuple[tuple[bytes, int], ...] = ()  # (name, offset up to which its data is of it), the youngest first

    @classmethod
    def read(cls, info: bytes) -> "Lineage":
        """Take what INFO lineage has answered; nothing where that is something else."""
        fields = dict(line.split(b":", 1) for line in info.split(b"\r\n") if b":" in line)
        masters = fields.get(b"masters", b"").decode("latin-1").split(",")
        places = [place.partition(b":") for place in fields.get(b"histories", b"").split(b",")]
        return cls(
            fields.get(b"run_id", b"").decode("latin-1"),
            tuple(filter(None, masters)),
            tuple((name, int(end)) for name, _, end in places if end.isdigit()),
        )

    def chain_for(self, run_id: str) -> tuple[str, ...]:
        """List the servers above one that follows this server, by their run IDs; not further than to itself."""
        chain = tuple(filter(None, (self.run_id, *self.masters)))
        return chain[: chain.index(run_id) + 1] if run_id in chain else chain

    def lags_behind(self, effects: EffectLog) -> bool:
        """Whether this server is a replica that has less of the history it is in than one that wants to follow it."""
        if not self.masters or not self.histories:
            return False
        name, end = self.histories[0]
        places = {**dict(reversed(effects.ancestors)), effects.history: effects.offset}
        return places.get(name, 0) > end

    def branch_of(self, effects: EffectLog) -> int | None:
        """Find the offset at which this server has left what others went on with; None where it has all of that."""
        ends = dict(reversed(self.histories))
        for history, end in ((effects.history, effects.offset), *effects.ancestors):
            if history in ends:
                branch = min(end, ends[history])
                return branch if branch < effects.offset else None
        return None
