"""Give translated pages the code blocks of their originals: `make docs` runs it, and a test compares.

    python tools/copy_blocks.py         writes README.zh-CN.md and docs/zh/*.md

The first block of a translation that is run becomes the first one of the original, and so on. Drawings are the
translation's own.
"""

import re
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
_BLOCK: Final = re.compile(r"^```(?:console|python|json|toml|sql)\n.*?^```$", re.MULTILINE | re.DOTALL)


def translations() -> dict[Path, Path]:
    """Return the original of each translated page."""
    pages = {PROJECT / "README.zh-CN.md": PROJECT / "README.md"}
    return pages | {page: PROJECT / "docs" / page.name for page in sorted((PROJECT / "docs" / "zh").glob("*.md"))}


def run_blocks(text: str) -> list[str]:
    """Find the blocks of a page that are run, with their fences."""
    return _BLOCK.findall(text)


def with_blocks_of(original: str, translated: str) -> str:
    """Return a translated page with the blocks of its original."""
    blocks = run_blocks(original)
    if len(blocks) != len(run_blocks(translated)):
        raise SystemExit(f"the translation has {len(run_blocks(translated))} blocks, the original {len(blocks)}")
    following = iter(blocks)
    return _BLOCK.sub(lambda _: next(following), translated)


if __name__ == "__main__":
    for page, original in translations().items():
        page.write_text(with_blocks_of(original.read_text(), page.read_text()))
