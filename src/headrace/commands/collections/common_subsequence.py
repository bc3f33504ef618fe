"""LCS: what two strings have in common."""

from typing import Final

from headrace.commands.declaration.table import FIRST_TWO, command
from headrace.core.common_subsequence import common_length, common_subsequence
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_NOT_STRINGS: Final = b"ERR The specified keys must contain string values"
_LENGTH_AND_INDEXES: Final = b"ERR If you want both the length and indexes, please just use IDX."
_NO_MEMORY: Final = b"ERR Insufficient memory, failed allocating transient memory for LCS"


def _text_at(call: Call, at: int) -> bytes:
    value = call.value(at)
    if value is not None and type(value) is not bytes:
        raise CommandError(_NOT_STRINGS)
    return value or b""


@command(
    "lcs key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
    arity=-3,
    flags=Flag.READ,
    keys=FIRST_TWO,
    since="7.0.0",
    group="string",
)
def lcs(call: Call) -> None:
    """Reply the longest common subsequence of two strings: bytes that stand in both in the same order.

    With LEN its length; with IDX where its matches stand in both, those of a least length, each with its length.
    """
    texts = _text_at(call, 1), _text_at(call, 2)
    options: set[bytes] = set()
    least, at = 0, 3
    while at < call.argc:
        option = call.argv[at].lower()
        if option == b"minmatchlen" and at + 1 < call.argc:
            least = call.integer(at + 1)
            at += 1
        elif option in (b"len", b"idx", b"withmatchlen"):
            options.add(option)
        else:
            raise CommandError(SYNTAX)
        at += 1
    if {b"len", b"idx"} <= options:
        raise CommandError(_LENGTH_AND_INDEXES)
    try:
        _reply(call, texts, options, least)
    except MemoryError:
        raise CommandError(_NO_MEMORY) from None


def _reply(call: Call, texts: tuple[bytes, bytes], options: set[bytes], least: int) -> None:
    if b"len" in options:
        call.reply.integer(common_length(*texts))
        return
    common, matches = common_subsequence(*texts)
    if b"idx" not in options:
        call.reply.bulk(common)
        return
    matches = [match for match in matches if match[1] - match[0] + 1 >= least]
    call.reply.map(2)
    call.reply.bulk(b"matches")
    call.reply.array(len(matches))
    for first, last, other_first, other_last in matches:
        call.reply.array(3 if b"withmatchlen" in options else 2)
        for range_of_text in ((first, last), (other_first, other_last)):
            call.reply.array(2)
            for place in range_of_text:
                call.reply.integer(place)
        if b"withmatchlen" in options:
            call.reply.integer(last - first + 1)
    call.reply.bulk(b"len")
    call.reply.integer(len(common))
