"""The guide shows what really happens: its examples are run."""

import doctest
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "in-process.md"


def test_every_example_of_the_guide_gives_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # which "data" is in
    examples = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "guide", str(GUIDE), 0)
    result = doctest.DocTestRunner().run(test)
    assert result.attempted >= 50
    assert result.failed == 0
    assert (tmp_path / "data" / "appendonlydir").is_dir()
