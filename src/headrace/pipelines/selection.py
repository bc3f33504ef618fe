r"""What a person selects: keys by names and patterns, ranges of time. And options as they name keys.

"orders,sensor:*"         what a person writes: names and patterns, with commas between
b"a,b*"  ─► "a\,b\*"      an exact key as the source's option takes it
"""

from collections.abc import Iterable

from headrace.core.stream_id import StreamID
from headrace.engine.glob import matcher
from headrace.pipelines.errors import PipelineError
from headrace.spark.errors import BadOption
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


def seconds_of(name: str, text: str) -> float:
    """Return a duration such as "90s" or "15 minutes" in seconds."""
    given = {"keys": "*", "minEntriesPerTrigger": "1", "maxTriggerDelay": text}
    try:
        return read_options(given, streaming=True).trigger_delay_s
    except BadOption:
        raise PipelineError(f"the time {name!r} is {text!r}: expected a duration such as 90s or 15 minutes") from None


def id_range(start: str | None, end: str | None) -> tuple[StreamID | None, StreamID | None]:
    """Return the first and the last ID from one time on and before another; None: no limit.

    A time is ISO 8601, in UTC where it names no zone, or milliseconds since 1970.
    """
    ids: list[StreamID | None] = []
    for name, option, text in (("from", "startingTimestamp", start), ("to", "endingTimestamp", end)):
        if text is None:
            ids.append(None)
            continue
        try:
            options = read_options({"keys": "*", option: text}, streaming=False)
        except BadOption as refused:
            raise PipelineError(str(refused).replace(f"option {option!r}", f"the time {name!r}")) from None
        found = (options.starting if name == "from" else options.ending).everywhere
        ids.append(found if isinstance(found, StreamID) else None)
    return ids[0], ids[1]
