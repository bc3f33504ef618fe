"""`python -m bench`: see the package."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from bench.page import CHARTS, DOCS, load, store, write_page
from bench.quick import quick
from bench.run import Run
from bench.sections import BY_NAME, SECTIONS

FIGURES = DOCS / CHARTS / "figures.json"


def main() -> int:
    """Measure what is asked for."""
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Headrace in figures.")
    parser.add_argument("sections", nargs="*", help=f"page, quick, or some of {' '.join(names)}; all by default")
    parser.add_argument("--page", action="store_true", help="put these sections into the page, too")
    options = parser.parse_args()
    console = Console(highlight=False)
    unknown = [name for name in options.sections if name not in {*names, "page", "quick"}]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are page, quick, {', '.join(names)}")
    if "quick" in options.sections:
        return quick(console)
    figures = load(FIGURES)
    for name in (name for name in names if not options.sections or name in options.sections):
        console.print(BY_NAME[name].title, style="bold")
        run = Run(name, console=console)
        BY_NAME[name].measure(run)
        figures[name] = run.save()
        if options.page or not options.sections:
            store(FIGURES, figures)
    if options.page or not options.sections or "page" in options.sections:
        console.print(f"Everything is in {write_page(figures)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
