"""Hold Cython modules to the layers that import-linter holds Python modules to, and to what is private in a class.

import-linter reads Python only. This reads every import and cimport of the .pyx and .pxd files, and compares them with
the contracts of layers in pyproject.toml: inside a container, a module may import from its own part and from parts of
lower layers.

Every module that cimports a class can read its attributes. PRIVATE names those that only some modules may read.

Exits with status 1 and one line for each import that points the wrong way, and for each use of what is private.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "headrace"
IMPORT = re.compile(rf"^\s*(?:from\s+({PACKAGE}(?:\.\w+)*)\s+c?import|c?import\s+({PACKAGE}(?:\.\w+)*))", re.MULTILINE)

# attribute: the modules that may use it. A node's address is theirs, so that a node may lie elsewhere than on the heap.
PRIVATE = {
    "node_tree": {"core/node_store", "core/entry_log"},
    "node_finder": {"core/node_store"},
    "tail_node": {"core/node_store", "core/entry_log"},
    "tail_capacity": {"core/node_store", "core/entry_log"},
}


def layer_numbers() -> dict[str, dict[str, int]]:
    """For each container, the layer of each of its parts, counted from the lowest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {
        container: {
            name.strip(" ()"): number
            for number, row in enumerate(reversed(contract["layers"]))
            for name in row.split("|")
        }
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
    }


def part_of(module: str, container: str) -> str:
    """The part of a container that a module is in, or nothing where it is in none."""
    return module.removeprefix(f"{container}.").split(".")[0] if module.startswith(f"{container}.") else ""


def wrong_imports(source: Path, container: str, layers: dict[str, int]) -> list[str]:
    """A sentence for each import of a Cython file that points at its own layer or a higher one."""
    own = part_of(".".join(source.relative_to(ROOT / "src").with_suffix("").parts), container)
    if not own:
        return []
    found = []
    text = source.read_text()
    for match in IMPORT.finditer(text):
        other = part_of(match[1] or match[2], container)
        if other in ("", own):
            continue
        if other not in layers or own not in layers:
            problem = "which the layers in pyproject.toml do not name"
        elif layers[other] >= layers[own]:
            problem = "which is not below it"
        else:
            continue
        line = text.count("\n", 0, match.start(match.lastindex or 0)) + 1
        found.append(f"{source.relative_to(ROOT)}:{line}: {own} imports {other}, {problem}")
    return found


def private_uses(source: Path) -> list[str]:
    """A sentence for each attribute that a Cython file uses and may not."""
    module = source.relative_to(ROOT / "src" / PACKAGE).with_suffix("").as_posix()
    return [
        f"{source.relative_to(ROOT)}:{number}: uses {name}, which is private to {' and '.join(sorted(PRIVATE[name]))}"
        for number, line in enumerate(source.read_text().splitlines(), 1)
        for name in PRIVATE
        if module not in PRIVATE[name] and re.search(rf"\.{name}\b", line)
    ]


def main() -> int:
    sources = sorted(path for path in (ROOT / "src" / PACKAGE).rglob("*") if path.suffix in {".pyx", ".pxd"})
    problems = [
        problem
        for container, layers in layer_numbers().items()
        for source in sources
        if source.stem != "__init__"
        for problem in wrong_imports(source, container, layers)
    ]
    problems += [problem for source in sources for problem in private_uses(source)]
    print("\n".join([*problems, f"{len(sources)} Cython files, {len(problems)} against the layers or what is private"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
