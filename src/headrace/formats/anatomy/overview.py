"""A stream seen from above: its counters, its nodes, its rax, its groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.core.listpack import Listpack
from headrace.core.rax_map import RaxMap
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID

if TYPE_CHECKING:
    from headrace.core.rax_drawing import TreeShape


@dataclass(frozen=True)
class StreamNode:
    """One node, and what its master entry says."""

    master: StreamID
    listpack: bytes
    alive: int
    deleted: int
    fields: tuple[bytes, ...]

    @classmethod
    def read(cls, master: StreamID, listpack: bytes) -> StreamNode:
        """Read the master entry."""
        elements = iter(Listpack.from_bytes(listpack))
        alive, deleted, fields = int(next(elements)), int(next(elements)), int(next(elements))
        names = (next(elements) for _ in range(fields))
        texts = tuple(name if isinstance(name, bytes) else b"%d" % name for name in names)
        return cls(master, listpack, alive, deleted, texts)


class Overview:
    """The figures of a stream as a whole."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.nodes = [StreamNode.read(master, listpack) for master, listpack in stream.nodes()]

    @property
    def bytes(self) -> int:
        """How many bytes all listpacks have."""
        return sum(len(node.listpack) for node in self.nodes)

    @property
    def deleted(self) -> int:
        """How many deleted entries still take room."""
        return sum(node.deleted for node in self.nodes)

    @cached_property
    def tree(self) -> TreeShape:
        """The rax of the nodes, as a server builds it when it loads them."""
        index = RaxMap()
        for node in self.nodes:
            index.insert(node.master.key, None)
        return index.shape()
