"""docs/architecture.md names modules that exist, and each flow passes a module once."""

import re
from pathlib import Path

import pytest

from support.guides import PAGES, PROJECT

SOURCE = PROJECT / "src" / "headrace"
PAGE = next(page for page in PAGES if page.name == "architecture.md").read_text()
PACKAGES = "|".join(sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()))
FLOWS = re.findall(
    r"^\*\*([^*]+)\*\*[^`]*(?:`[^`]+`[^`]*)*\n\n```\n(.*?)```",
    PAGE.partition("## The main flows")[2].partition("\n## ")[0],
    re.MULTILINE | re.DOTALL,
)


def is_module(name: str) -> bool:
    path = SOURCE / name.rstrip("/")
    return path.exists() or any(Path(f"{path}{suffix}").exists() for suffix in (".py", ".pyx", ".pxd"))


def test_every_module_that_the_page_names_exists() -> None:
    named = set(re.findall(rf"`((?:{PACKAGES})/[\w/.]*)`", PAGE))
    assert len(named) > 50
    assert [name for name in sorted(named) if not is_module(name)] == []


def test_the_page_draws_the_main_flows() -> None:
    assert len(FLOWS) == 8


@pytest.mark.parametrize(("flow", "drawing"), FLOWS, ids=[flow for flow, _ in FLOWS])
def test_a_flow_passes_modules_that_exist_each_once(flow: str, drawing: str) -> None:
    passed = re.findall(rf"^(?:\w+)? *((?:{PACKAGES})/[\w/]+) ", drawing, re.MULTILINE)
    assert len(passed) > 5, flow
    assert [name for name in passed if not is_module(name)] == []
    assert sorted(set(passed)) == sorted(passed)
