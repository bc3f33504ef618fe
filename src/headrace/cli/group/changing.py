"""`headrace group create`, `reset`, `drop` and `claim`; each says what it did; some ask first."""

import json
from typing import Final

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected, require_stream
from headrace.cli.errors import CommandFailed
from headrace.cli.group.looking import require_group
from headrace.cli.showing import lossless, number, plural, raw, shown
from headrace.cli.terminal import confirm
from headrace.cli.times import BEGINNING, END
from headrace.core.stream_id import StreamID

_PAGE: Final = 1000


def run_create(server: ServerAddress, name: str, group: str, at: str, *, make_stream: bool, as_json: bool) -> None:
    """Make a group."""
    key = raw(name)
    with connected(server) as client:
        if not make_stream:
            require_stream(client, key)
        try:
            client.xgroup_create(key, raw(group), at, mkstream=make_stream)
        except redis.ResponseError as error:
            if str(error).startswith("BUSYGROUP"):
                raise CommandFailed(
                    f"The stream {shown(key)} already has a group {group}: move it with `headrace group reset`."
                ) from None
            raise
        _report(client, key, group, f"The group {group} of {shown(key)} reads {_told(at)}.", as_json=as_json)


def run_reset(
    server: ServerAddress, name: str, group: str, to: str | None, lag: int | None, *, yes: bool, as_json: bool
) -> None:
    """Move a group to another place."""
    key = raw(name)
    with connected(server) as client:
        facts = require_group(client, key, raw(group))
        read: int | None = None
        if lag is None:
            target = str(to)
        else:
            target, read = _place_of_lag(client, key, lag)
        confirm(
            f"Move the group {group} of {shown(key)} from {_text(facts['last-delivered-id'])} to {target}? It has "
            f"{plural(int(str(facts['pending'])), 'entry', 'entries')} pending, which stay so.",
            yes=yes,
        )
        client.xgroup_setid(key, raw(group), target, entries_read=read)
        after = require_group(client, key, raw(group))
        lag_now = after.get("lag")
        behind = "" if lag_now is None else f", with {plural(int(str(lag_now)), 'entry', 'entries')} to read"
        sentence = f"The group {group} of {shown(key)} is at {_text(after['last-delivered-id'])}{behind}."
        _report(client, key, group, sentence, as_json=as_json)


def run_drop(server: ServerAddress, name: str, group: str, *, yes: bool, as_json: bool) -> None:
    """Remove a group."""
    key = raw(name)
    with connected(server) as client:
        facts = require_group(client, key, raw(group))
        consumers, pending = int(str(facts["consumers"])), int(str(facts["pending"]))
        confirm(
            f"Remove the group {group} of {shown(key)}, with {plural(consumers, 'consumer')} and "
            f"{plural(pending, 'entry', 'entries')} pending? What it has read will not be known any more.",
            yes=yes,
        )
        client.xgroup_destroy(key, raw(group))
    dropped = {"stream": name, "group": group, "consumers": consumers, "pending": pending}
    print(json.dumps(dropped) if as_json else f"The group {group} of {shown(key)} is gone.")  # noqa: T201


def run_claim(
    server: ServerAddress, name: str, group: str, *, consumer: str, idle_ms: int, count: int | None, as_json: bool
) -> None:
    """Give what is stale to another consumer."""
    key = raw(name)
    claimed: list[str] = []
    deleted: list[str] = []
    with connected(server) as client:
        require_group(client, key, raw(group))
        cursor = b"0-0"
        while count is None or len(claimed) < count:
            most = _PAGE if count is None else min(_PAGE, count - len(claimed))
            cursor, ids, *gone = ask(
                client, "XAUTOCLAIM", key, raw(group), raw(consumer), idle_ms, cursor, "COUNT", most, "JUSTID"
            )
            claimed += [id.decode() for id in ids]
            deleted += [id.decode() for id in (gone[0] if gone else ())]
            if cursor == b"0-0":
                break
    if as_json:
        print(json.dumps({"consumer": consumer, "claimed": claimed, "deleted": deleted}))  # noqa: T201
        return
    gone = f"; {number(len(deleted))} were deleted from the stream, and are pending no more" if deleted else ""
    print(f"{plural(len(claimed), 'entry is', 'entries are')} {consumer}'s now{gone}.")  # noqa: T201


def _report(client: redis.Redis, key: bytes, group: str, sentence: str, *, as_json: bool) -> None:
    if not as_json:
        print(sentence)  # noqa: T201
        return
    facts = require_group(client, key, raw(group))
    told = {
        "stream": lossless(key),
        "group": group,
        "last_delivered_id": _text(facts["last-delivered-id"]),
        "lag": facts.get("lag"),
        "pending": facts["pending"],
    }
    print(json.dumps(told))  # noqa: T201


# --- places ----------------------------------------------------------------------------------------------------------


def _told(at: str) -> str:
    if at == BEGINNING:
        return "everything"
    return f"what is behind {'the last entry of now' if at == END else at}"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _place_of_lag(client: redis.Redis, key: bytes, lag: int) -> tuple[str, int | None]:
    """Find the ID behind which there are so many entries, and how many entries a group at that ID has read."""
    facts = client.xinfo_stream(key)
    added = facts.get("entries-added")
    length = facts["length"]
    read = None if added is None else added - min(lag, length)
    if lag == 0:
        return facts["last-generated-id"].decode(), read
    # The entry in front of those that are to be read is the one that was read last.
    left, end = lag + 1, "+"
    while lag < length:
        page = ask(client, "XREVRANGE", key, end, "-", "COUNT", min(left, _PAGE))
        left -= len(page)
        if left == 0:
            return page[-1][0].decode(), read
        if len(page) < _PAGE:
            break
        end = str(StreamID.parse(page[-1][0]).predecessor())
    return BEGINNING, read
