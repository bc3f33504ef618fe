"""SCAN and its sisters: cursors, options and replies.

A cursor is a place in the order in which elements came, and 0 begins and ends a walk; `core/dict_pages` says why no
element is missed that was there all the time. What Redis keeps in a listpack or an intset comes whole, as from Redis.
"""

import re
from dataclasses import dataclass
from typing import Final

from headrace.commands.keys.objects import encoding_of
from headrace.commands.replies import reply_texts
from headrace.engine.call import Call
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.glob import Matcher, matcher

_DEFAULT_COUNT: Final = 10

_SMALL: Final = (b"listpack", b"intset")

# What C's strtoul takes without a blank in front; it negates modulo 2^64, and an empty text is 0.
_CURSOR: Final = re.compile(rb"([+-]?)(\d+)|")


@dataclass
class ScanOptions:
    """What a scan is limited to."""

    count: int = _DEFAULT_COUNT
    matches: Matcher | None = None
    kind: bytes | None = None
    no_values: bool = False

    def chosen(self, names: list[bytes]) -> list[bytes]:
        """Return the names that MATCH leaves."""
        return names if self.matches is None else [name for name in names if self.matches(name)]


def read_cursor(text: bytes) -> int:
    """Read a cursor; whatever it is, it is a place from which a scan can go on."""
    # A number ends where C text does.
    found = _CURSOR.fullmatch(text.split(b"\0", 1)[0])
    if found is None or int(found[2] or 0) >= 1 << 64:
        raise CommandError(b"ERR invalid cursor")
    return int((found[1] or b"") + (found[2] or b"0")) % (1 << 64)


def read_scan_options(call: Call, at: int, *, kinds: bool = False, values: bool = False) -> ScanOptions:
    """Read COUNT and MATCH, and where they make sense TYPE and NOVALUES."""
    options = ScanOptions()
    while at < call.argc:
        option = call.argv[at].lower()
        if values and option == b"novalues":
            options.no_values = True
            at += 1
            continue
        if at + 1 == call.argc:
            raise CommandError(SYNTAX)
        if option == b"count":
            options.count = call.integer(at + 1)
            if options.count < 1:
                raise CommandError(SYNTAX)
        elif option == b"match":
            options.matches = matcher(call.argv[at + 1])
        elif kinds and option == b"type":
            options.kind = call.argv[at + 1].lower()
        else:
            raise CommandError(SYNTAX)
        at += 2
    return options


def reply_scan(call: Call, cursor: int, found: list[bytes]) -> None:
    """Reply the next cursor, and what a step found."""
    call.reply.array(2)
    call.reply.bulk(b"%d" % cursor)
    reply_texts(call, found)


def comes_whole(call: Call, held: object) -> bool:
    """Tell whether a collection is so small that Redis gives it in one reply, whatever COUNT says."""
    return encoding_of(held, call.engine.config) in _SMALL
