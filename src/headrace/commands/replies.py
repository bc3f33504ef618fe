"""Replies of one shape that many commands give: a text or nil, texts, members with their scores."""

from collections.abc import Collection

from headrace.engine.call import Call


def reply_text(call: Call, text: bytes | None) -> None:
    """Reply a text, or nil."""
    if text is None:
        call.reply.null()
    else:
        call.reply.bulk(text)


def reply_texts(call: Call, texts: Collection[bytes | None]) -> None:
    """Reply an array of texts, with nil where there is none."""
    call.reply.array(len(texts))
    for text in texts:
        reply_text(call, text)


def reply_members(call: Call, members: Collection[bytes]) -> None:
    """Reply a set of texts."""
    call.reply.set(len(members))
    for member in members:
        call.reply.bulk(member)


def reply_score(call: Call, score: float | None) -> None:
    """Reply a score, or nil."""
    if score is None:
        call.reply.null()
    else:
        call.reply.double(score)


def reply_scored(call: Call, pairs: Collection[tuple[bytes, float]]) -> None:
    """Reply members with their scores: one after the other, in RESP3 a pair each."""
    nested = call.reply.protocol == 3
    call.reply.array(len(pairs) if nested else 2 * len(pairs))
    for member, score in pairs:
        if nested:
            call.reply.array(2)
        call.reply.bulk(member)
        call.reply.double(score)
