"""Hold Cython modules to the layers that import-linter holds Python modules to.

import-linter reads Python only. This reads every import and cimport of the .pyx and .pxd files, and compares them with
the contract of layers in pyproject.toml: a module may import from its own package and from packages of lower layers.

Exits with status 1 and one line for each import that points the wrong way.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "headrace"
IMPORT = re.compile(rf"^\s*(?:from\s+({PACKAGE}(?:\.\w+)*)\s+c?import|c?import\s+({PACKAGE}(?:\.\w+)*))", re.MULTILINE)


def layer_numbers() -> dict[str, int]:
    """The layer of each package, counted from the lowest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip(" ()"): number for number, row in enumerate(reversed(layers)) for name in row.split("|")}


def package_of(module: str) -> str:
    """The part of a module's name that the contract speaks of."""
    return module.split(".")[1] if "." in module else ""


def wrong_imports(source: Path, layers: dict[str, int]) -> list[str]:
    """A sentence for each import of a Cython file that points at its own layer or a higher one."""
    own = source.relative_to(ROOT / "src" / PACKAGE).parts[0]
    found = []
    text = source.read_text()
    for match in IMPORT.finditer(text):
        other = package_of(match[1] or match[2])
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
    layers = layer_numbers()
    sources = sorted(path for path in (ROOT / "src" / PACKAGE).rglob("*") if path.suffix in {".pyx", ".pxd"})
    problems = [problem for source in sources for problem in wrong_imports(source, layers)]
    print("\n".join([*problems, f"{len(sources)} Cython files, {len(problems)} imports against the layers"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
