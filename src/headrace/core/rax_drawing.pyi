from typing import Literal, TypedDict

from headrace.core.rax import Rax

class NodeShape(TypedDict):
    kind: Literal["compressed", "branching", "leaf"]
    edges: bytes
    is_key: bool
    has_value: bool
    children: list[NodeShape]

class TreeShape(TypedDict):
    numele: int
    numnodes: int
    allocated: int
    head: NodeShape

def shape(tree: Rax) -> TreeShape: ...
def draw(tree: Rax) -> str: ...
