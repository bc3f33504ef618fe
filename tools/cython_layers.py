"""Hold Cython modules to the layers that import-linter holds Python modules to.

import-linter reads Python only. This reads every import and cimport of the .pyx and .pxd files, and compares them with
the contracts of layers in pyproject.toml: inside a container, a module may import from its own part and from parts of
lower layers.

Exits with status 1 and one line for each import that points the wrong way.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "headrace"
IMPORT = re.compile(rf"^\s*(?:from\s+({PACKAGE}(?:\.\w+)*)\s+c?import|c?import\s+({PACKAGE}(?:\.\w+)*))", re.MULTILINE)


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


def main() -> int:
    sources = sorted(path for path in (ROOT / "src" / PACKAGE).rglob("*") if path.suffix in {".pyx", ".pxd"})
    problems = [
        problem
        for container, layers in layer_numbers().items()
        for source in sources
        if source.stem != "__init__"
        for problem in wrong_imports(source, container, layers)
    ]
    print("\n".join([*problems, f"{len(sources)} Cython files, {len(problems)} imports against the layers"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
