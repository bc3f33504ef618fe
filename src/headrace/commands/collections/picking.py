"""Random elements: SPOP, SRANDMEMBER, HRANDFIELD and ZRANDMEMBER choose in the same way."""

from collections.abc import Collection
from itertools import islice
from random import SystemRandom
from typing import Final, TypeVar

from headrace.commands.arguments import LONG_MAX, read_limited
from headrace.engine.call import Call
from headrace.engine.errors import CommandError

Element = TypeVar("Element")

_OUT_OF_RANGE: Final = b"ERR value is out of range"

# A count below 0 repeats elements, so that nothing else limits the reply.
_MOST_REPEATED: Final = 2**24

_RANDOM: Final = SystemRandom()


def pick_one(elements: Collection[Element]) -> Element:
    """Choose any element, each as likely as another."""
    return next(islice(elements, _RANDOM.randrange(len(elements)), None))


def pick(elements: Collection[Element], count: int) -> list[Element]:
    """Choose up to `count` different elements; below 0, so many whether different or not."""
    if count < 0:
        return _RANDOM.choices(list(elements), k=-count) if elements else []
    if count >= len(elements):
        return list(elements)
    return _RANDOM.sample(list(elements), count)


def read_picks(call: Call, index: int, *, pairs: bool = False) -> int:
    """Read how many elements to choose; of pairs, half as many can be counted."""
    count = read_limited(call, index, -LONG_MAX, LONG_MAX)
    if (pairs and abs(count) > LONG_MAX // 2) or count < -_MOST_REPEATED:
        raise CommandError(_OUT_OF_RANGE)
    return count
