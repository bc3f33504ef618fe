"""The README shows what really happens: its Python examples are run."""

import doctest
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_every_python_example_of_the_readme_gives_what_it_shows() -> None:
    examples = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "README", "README.md", 0)
    result = doctest.DocTestRunner().run(test)
    assert result.attempted >= 8
    assert result.failed == 0
