"""The rules of a queue, as `stream.policy` and `group.policy` take and show them.

    stream.policy(maxage="7d", refs="acked")            sets; returns what is in force
    stream.policy()                                     only looks
    group.policy(visibility="30s", max_deliveries=5)

A duration is a text such as 30s or 7d, a number of seconds, or a timedelta; a size is a text such as 512mb, or bytes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from headrace.api.ids import as_milliseconds
from headrace.api.runner import Plan, Request, text_of

Duration = str | float | timedelta
Size = str | int
Policy = dict[str, str | int]

_REFERENCES: Final = ("keepref", "delref", "acked")


def duration_text(duration: Duration) -> bytes:
    """Write a duration as HEADRACE POLICY takes it."""
    return duration.encode() if isinstance(duration, str) else as_milliseconds(duration)


def stream_words(
    maxlen: int | None, maxage: Duration | None, maxbytes: Size | None, refs: str | None, *, drop_acked: bool
) -> Request:
    """Write the rule of a stream; nothing where nothing is said."""
    words: list[bytes] = []
    if maxlen is not None:
        words += [b"MAXLEN", b"%d" % maxlen]
    if maxage is not None:
        words += [b"MAXAGE", duration_text(maxage)]
    if maxbytes is not None:
        words += [b"MAXBYTES", text_of(maxbytes)]
    words += reference_words(refs, "refs")
    if drop_acked:
        words += [b"DROP", b"ACKED"]
    return words


def reference_words(policy: str | None, name: str = "policy") -> Request:
    """Write what a limit may remove; nothing where nothing is said."""
    if policy is None:
        return []
    if policy.lower() not in _REFERENCES:
        raise ValueError(f"{name} is one of {', '.join(_REFERENCES)}, not {policy!r}")
    return [policy.upper().encode()]


def group_words(
    *,
    visibility: Duration | None,
    retry: tuple[Duration, Duration] | None,
    max_deliveries: int | None,
    dead_letter: str | bytes | None,
    consumer_ttl: Duration | None,
    create_from: str | None,
) -> Request:
    """Write the rule of a group; nothing where nothing is said."""
    words: list[bytes] = []
    if visibility is not None:
        words += [b"VISIBILITY", duration_text(visibility)]
    if retry is not None:
        shortest, longest = retry
        words += [b"RETRY", duration_text(shortest), duration_text(longest)]
    if max_deliveries is not None:
        words += [b"MAXDELIVERIES", b"%d" % max_deliveries]
    if dead_letter is not None:
        words += [b"DEADLETTER", text_of(dead_letter)]
    if consumer_ttl is not None:
        words += [b"CONSUMERTTL", duration_text(consumer_ttl)]
    if create_from is not None:
        words += [b"CREATE", b"FROM", create_from.encode()]
    return words


def read_policy(reply: Any) -> Policy | None:
    """Read what HEADRACE POLICY GET answers; None where there is no rule."""
    if reply is None:
        return None
    return {
        name.decode().replace("-", "_"): value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        for name, value in reply.items()
    }


def set_policy(target: Request, words: Request) -> Plan[Policy | None]:
    """Set the rule of a stream or a group, where there are words for it, and get it."""
    if words:
        yield [b"HEADRACE", b"POLICY", b"SET", *target, *words]
    return read_policy((yield [b"HEADRACE", b"POLICY", b"GET", *target]))
