"""A translated page has the sections and the code blocks of its original."""

import importlib.util
import re
from pathlib import Path

import pytest

from support.guides import PAGES, PROJECT

_spec = importlib.util.spec_from_file_location("copy_blocks", PROJECT / "tools" / "copy_blocks.py")
assert _spec is not None
assert _spec.loader is not None
copy_blocks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(copy_blocks)
TRANSLATIONS: dict[Path, Path] = copy_blocks.translations()


def sections(page: Path, level: str = "##") -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(rf"^{level} (.+)$", text, re.MULTILINE)


def test_all_translated_pages_are_among_those_that_are_run() -> None:
    assert set(TRANSLATIONS) <= set(PAGES)
    assert len(TRANSLATIONS) == 2


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_has_the_sections_of_its_original(page: Path) -> None:
    original = TRANSLATIONS[page]
    own = [section for section in sections(page) if section != "术语"]  # a glossary is the translation's own
    assert len(own) == len(sections(original)), f"{original.name} and its translation differ in their sections"


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_has_the_blocks_of_its_original(page: Path) -> None:
    blocks = copy_blocks.run_blocks(TRANSLATIONS[page].read_text())
    assert copy_blocks.run_blocks(page.read_text()) == blocks, f"{page.name}: `make docs` copies the blocks"
    links = [
        set(re.findall(r"\((?:\.\./)*(?:docs/)?([\w-]+\.md)", each.read_text())) for each in (page, TRANSLATIONS[page])
    ]
    assert links[1] - links[0] <= {"from-the-documents.md"}, "a link of the original is missing"


def test_a_block_that_was_changed_is_copied() -> None:
    original = "a\n```python\n1\n```\n```\ndrawing\n```\n```console\n$ two\n```\n"
    translated = "甲\n```python\n0\n```\n```\n图\n```\n乙\n```console\n$ 二\n```\n"
    assert copy_blocks.with_blocks_of(original, translated) == (
        "甲\n```python\n1\n```\n```\n图\n```\n乙\n```console\n$ two\n```\n"
    )
