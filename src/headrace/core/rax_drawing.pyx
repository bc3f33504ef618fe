"""What a radix tree looks like: as plain data for an inspector, and as a picture for a person.

The picture reads from left to right, as a key does. A compressed run is in quotes, the edges of a branching node are
in brackets, and ● closes a key; a new line begins below each edge of a node that has several. The keys "tap",
"tape" and "toad":

    [t] [ao]
        ├─ a [p] ● [e] ●
        └─ o "ad" ●

Both walk with a list of what is still to do, so that no depth of the tree is too deep for them.
"""

from headrace.core.rax cimport Rax
from headrace.core.rax_node cimport (
    Node, child_count, children_of, edges_of, is_compressed, is_key, node_size, value_of,
)

cdef str KEY_MARK = "●"


def shape(Rax tree not None) -> dict:
    """The tree's counts, and from "head" down its nodes.

    A node has "kind" (compressed, branching or leaf), "edges" (bytes), "is_key", "has_value" and "children" (nodes).
    """
    cdef Node *node
    cdef Py_ssize_t position
    cdef list top = []
    cdef list to_do = [(<size_t> tree.head, top)]
    cdef list siblings, children
    while to_do:
        address, siblings = to_do.pop()
        node = <Node *> <size_t> address
        children = []
        siblings.append({
            "kind": "compressed" if is_compressed(node) else "branching" if node_size(node) else "leaf",
            "edges": edges_of(node)[:node_size(node)],
            "is_key": is_key(node),
            "has_value": value_of(node) != NULL,
            "children": children,
        })
        for position in range(<Py_ssize_t> child_count(node) - 1, -1, -1):
            to_do.append((<size_t> children_of(node)[position], children))
    return {
        "numele": tree.numele,
        "numnodes": tree.numnodes,
        "allocated": tree.allocated,
        "head": top[0],
    }


def draw(Rax tree not None) -> str:
    """The tree as lines of text."""
    cdef list lines = []
    # A node to draw, what its first line begins with, and what the lines below that begin with.
    cdef list to_do = [(shape(tree)["head"], "", "")]
    cdef list children
    cdef str line, word, below
    while to_do:
        node, line, below = to_do.pop()
        while True:
            children = node["children"]
            if node["is_key"]:
                line += KEY_MARK + " "
            if len(children) != 1:
                break
            word = printable(node["edges"])
            line += f'"{word}" ' if node["kind"] == "compressed" else f"[{word}] "
            node = children[0]
        # The branches stand below the bracket that names them.
        below += " " * (len(line) - len(below))
        lines.append(f"{line}[{printable(node['edges'])}]" if children else line.rstrip())
        for position in range(len(children) - 1, -1, -1):
            edge = printable(node["edges"][position:position + 1])
            if position == len(children) - 1:
                to_do.append((children[position], f"{below}└─ {edge} ", f"{below}   "))
            else:
                to_do.append((children[position], f"{below}├─ {edge} ", f"{below}│  "))
    return "\n".join(lines)


cdef str printable(bytes run):
    """The bytes as text: what ASCII shows stays itself, the rest is escaped."""
    return "".join([
        f"\\{byte:c}" if byte in b'\\"[]' else f"{byte:c}" if 0x20 < byte < 0x7F else f"\\x{byte:02x}" for byte in run
    ])
