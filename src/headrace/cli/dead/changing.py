"""`headrace dead redrive` and `headrace dead drop`; what removes letters asks first."""

import json
from typing import Any, Final

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected, require_stream
from headrace.cli.dead.letters import letters_of
from headrace.cli.showing import lossless, number, plural, raw, shown
from headrace.cli.terminal import confirm
from headrace.core.stream_id import StreamID

_AT_ONCE: Final = 1000  # letters of one command, so that no client of the server waits long


def run_redrive(
    server: ServerAddress,
    name: str,
    ids: list[str],
    *,
    to: str | None,
    where: tuple[str, str] | None,
    count: int | None,
    rate: int | None,
    as_json: bool,
) -> None:
    """Put letters back: now, or with a rate let the server do it."""
    key = raw(name)
    options: list[bytes | str] = [] if to is None else ["TO", raw(to)]
    if where is not None:
        options += ["WHERE", raw(where[0]), raw(where[1])]
    with connected(server) as client:
        require_stream(client, key)
        if rate is not None:
            limit: list[int | str] = [] if count is None else ["COUNT", count]
            ask(client, "HEADRACE", "REDRIVE", key, *options, *limit, "RATE", rate)
            _tell_status(client, key, as_json=as_json)
            return
        if ids:
            moved = int(ask(client, "HEADRACE", "REDRIVE", key, *options, "IDS", len(ids), *ids))
        else:
            moved = _redrive_now(client, key, options, count)
        left = int(ask(client, "XLEN", key))
    if as_json:
        print(json.dumps({"stream": name, "moved": moved, "left": left}))  # noqa: T201
        return
    print(f"{plural(moved, 'dead letter is', 'dead letters are')} back; {number(left)} left in {shown(key)}.")  # noqa: T201


def _redrive_now(client: redis.Redis, key: bytes, options: list[bytes | str], count: int | None) -> int:
    """Move what is there now, a slice at a time; letters that come back meanwhile are not moved again and again."""
    most = int(ask(client, "XLEN", key)) if count is None else count
    moved = 0
    while moved < most:
        size = min(_AT_ONCE, most - moved)
        done = int(ask(client, "HEADRACE", "REDRIVE", key, *options, "COUNT", size))
        moved += done
        if done < size:
            break
    return moved


def run_status(server: ServerAddress, name: str, *, as_json: bool) -> None:
    """Tell how far a redrive with a rate is."""
    with connected(server) as client:
        _tell_status(client, raw(name), as_json=as_json)


def run_end(server: ServerAddress, name: str, *, as_json: bool) -> None:
    """End a redrive with a rate."""
    with connected(server) as client:
        ended = bool(ask(client, "HEADRACE", "REDRIVE", raw(name), "END"))
    if as_json:
        print(json.dumps({"stream": name, "ended": ended}))  # noqa: T201
        return
    print(f"The redrive of {name} has ended." if ended else f"No redrive of {name} runs.")  # noqa: T201


def _tell_status(client: redis.Redis, key: bytes, *, as_json: bool) -> None:
    reply = ask(client, "HEADRACE", "REDRIVING", key)
    state = {} if reply is None else {lossless(k): lossless(v) for k, v in zip(reply[::2], reply[1::2], strict=True)}
    if as_json:
        told: dict[str, Any] = {"stream": lossless(key), "running": bool(state), **state}
        for field in ("rate", "moved", "left", "started"):
            if field in told:
                told[field] = int(told[field])
        print(json.dumps(told))  # noqa: T201
        return
    if not state:
        print(f"No redrive of {shown(key)} runs.")  # noqa: T201
        return
    waits = f" It waits: {state['held']}." if "held" in state else ""
    print(  # noqa: T201
        f"The server puts back {state['rate']} a second from {shown(key)}, {number(int(state['moved']))} so far.{waits}"
    )


def run_drop(
    server: ServerAddress, name: str, ids: list[str], *, where: tuple[str, str] | None, yes: bool, as_json: bool
) -> None:
    """Remove letters: those that are named, those that have a field, or all that are there now."""
    key = raw(name)
    with connected(server) as client:
        require_stream(client, key)
        if not ids and where is None:
            dropped = _drop_all(client, key, yes=yes)
        else:
            chosen = ids or [letter.id.decode() for letter in letters_of(client, key) if letter.has(where)]
            question = f"Remove {plural(len(chosen), 'dead letter')} of {shown(key)}? They cannot be put back then."
            if chosen:
                confirm(question, yes=yes)
            pages = [chosen[start : start + _AT_ONCE] for start in range(0, len(chosen), _AT_ONCE)]
            dropped = sum(int(ask(client, "XDEL", key, *page)) for page in pages)
    if as_json:
        print(json.dumps({"stream": name, "dropped": dropped}))  # noqa: T201
        return
    print(f"{plural(dropped, 'dead letter is', 'dead letters are')} gone.")  # noqa: T201


def _drop_all(client: redis.Redis, key: bytes, *, yes: bool) -> int:
    """Remove what was there when the question was asked; what dies meanwhile stays."""
    length = int(ask(client, "XLEN", key))
    last = ask(client, "XREVRANGE", key, "+", "-", "COUNT", 1)
    if not last:
        return 0
    confirm(f"Remove all {plural(length, 'entry', 'entries')} of {shown(key)}? They cannot be put back then.", yes=yes)
    return int(ask(client, "XTRIM", key, "MINID", "=", bytes(StreamID.parse(last[0][0]).successor())))
