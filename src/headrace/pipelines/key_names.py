r"""Keys as options name them, and options as they name keys.

"orders,sensor:*"         what a person writes: names and patterns, with commas between
b"a,b*"  ─► "a\,b\*"      an exact key as the source's option takes it
"""

from collections.abc import Iterable

from headrace.engine.glob import matcher
from headrace.spark.options import read_options

_SPECIAL = "*?[]^-\\"


def matching_keys(keys: Iterable[bytes], wanted: str | None) -> list[bytes]:
    """Return the keys that names and patterns stand for; all of them where nothing is wanted in particular."""
    if wanted is None:
        return sorted(keys)
    patterns = [matcher(name) for name in read_options({"keys": wanted}, streaming=False).keys]
    return sorted(key for key in keys if any(matches(key) for matches in patterns))


def keys_option(keys: Iterable[bytes]) -> str:
    """Return the option that reads these keys, and perhaps more: some bytes can only be given as a pattern."""
    return ",".join(_as_pattern(key) for key in keys)


def _as_pattern(key: bytes) -> str:
    text = key.decode(errors="surrogateescape")
    if not text:
        return "*"
    letters = []
    for place, letter in enumerate(text):
        outer_space = letter.isspace() and place in {0, len(text) - 1}
        if "\udc80" <= letter <= "\udcff" or letter < " " or outer_space:
            letters.append("?" * len(letter.encode(errors="surrogateescape")))
        elif letter == ",":
            letters.append("\\,")
        else:
            letters.append(f"\\{letter}" if letter in _SPECIAL else letter)
    return "".join(letters)
