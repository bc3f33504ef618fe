"""The acts of the page: each is one command, shown before it is sent.

    {"kind": "ack", …, "preview": true}  ─►  {"command": "XACK orders billing 1-1", "loses": …}     nothing is sent
    {"kind": "ack", …}                   ─►  {"command": …, "reply": 1}

The command of the preview and the command that is sent are made by the same function. `facts` is what the page says
will happen, in numbers: it has a sentence for each kind.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from headrace.console.api.entries import own_id_in
from headrace.console.api.questions import name_in, names_in, number_in, text_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session
from headrace.console.texts import bytes_of, command_line
from headrace.engine.side_keys import side_key

_MOST_IDS: Final = 1000
_MOST_FIELDS: Final = 1000

Body = dict[str, Any]
Facts = dict[str, Any]


def _add(body: Body) -> list[bytes]:
    fields = body.get("fields")
    if not isinstance(fields, list) or not 1 <= len(fields) <= _MOST_FIELDS:
        raise Refused(400, "request", "fields")
    words = [b"XADD", name_in(body, "stream"), bytes_of(text_in(body, "id") or "*")]
    for pair in fields:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise Refused(400, "request", "fields")
        words += [bytes_of(pair[0]), bytes_of(pair[1])]
    return words


def _delete(body: Body) -> list[bytes]:
    return [b"XDEL", name_in(body, "stream"), *names_in(body, "ids", _MOST_IDS)]


def _delete_stream(body: Body) -> list[bytes]:
    return [b"DEL", name_in(body, "stream")]


def _acknowledge(body: Body) -> list[bytes]:
    return [b"XACK", name_in(body, "stream"), name_in(body, "group"), *names_in(body, "ids", _MOST_IDS)]


def _claim(body: Body) -> list[bytes]:
    ids = names_in(body, "ids", _MOST_IDS)
    idle = b"%d" % number_in(body, "idle_ms", 0, 2**62)
    group, consumer = name_in(body, "group"), name_in(body, "consumer")
    return [b"XCLAIM", name_in(body, "stream"), group, consumer, idle, *ids, b"JUSTID"]


def _release(body: Body) -> list[bytes]:
    ids = names_in(body, "ids", _MOST_IDS)
    words = [b"XNACK", name_in(body, "stream"), name_in(body, "group"), b"SILENT", b"IDS", b"%d" % len(ids)]
    return [*words, *ids]


def _set_position(body: Body) -> list[bytes]:
    position = text_in(body, "id")
    if position != "$":
        position = own_id_in(body, "id")
    return [b"XGROUP", b"SETID", name_in(body, "stream"), name_in(body, "group"), position.encode()]


def _create_group(body: Body) -> list[bytes]:
    position = text_in(body, "id") or "$"
    return [b"XGROUP", b"CREATE", name_in(body, "stream"), name_in(body, "group"), position.encode()]


def _destroy_group(body: Body) -> list[bytes]:
    return [b"XGROUP", b"DESTROY", name_in(body, "stream"), name_in(body, "group")]


def _delete_consumer(body: Body) -> list[bytes]:
    words = [b"XGROUP", b"DELCONSUMER", name_in(body, "stream"), name_in(body, "group")]
    return [*words, name_in(body, "consumer")]


def _redrive(body: Body) -> list[bytes]:
    words = [b"HEADRACE", b"REDRIVE", name_in(body, "stream")]
    rate = number_in(body, "rate", 0, 1_000_000)
    return [*words, b"RATE", b"%d" % rate] if rate else words


def _redrive_chosen(body: Body) -> list[bytes]:
    ids = names_in(body, "ids", _MOST_IDS)
    return [b"HEADRACE", b"REDRIVE", name_in(body, "stream"), b"IDS", b"%d" % len(ids), *ids]


def _end_redrive(body: Body) -> list[bytes]:
    return [b"HEADRACE", b"REDRIVE", name_in(body, "stream"), b"END"]


def _reschedule(body: Body) -> list[bytes]:
    """Make the time when a message is due another one; a message that was added meanwhile is not scheduled again."""
    due = b"%d" % number_in(body, "at", 0, 2**53)
    times = side_key(name_in(body, "stream"), b"scheduled")
    return [b"ZADD", times, b"XX", b"CH", due, name_in(body, "ticket")]


def _unschedule(body: Body) -> list[bytes]:
    return [b"HEADRACE", b"UNSCHEDULE", name_in(body, "stream"), name_in(body, "ticket")]


def _forget_query(body: Body) -> list[bytes]:
    stream, query = name_in(body, "stream"), name_in(body, "query")
    if body.get("writes"):
        return [b"HEADRACE", b"FORGET", stream, query]
    return [b"HDEL", side_key(stream, b"queries"), query]


def _kill_client(body: Body) -> list[bytes]:
    return [b"CLIENT", b"KILL", b"ID", b"%d" % number_in(body, "id", 0, 2**62)]


# --- what will happen ------------------------------------------------------------------------------------------------


async def _count_ids(_session: Session, body: Body) -> Facts:
    return {"count": len(body["ids"])}


async def _count_stream(session: Session, body: Body) -> Facts:
    key = name_in(body, "stream")
    groups = [pairs(each) for each in await session.link.ask("XINFO", "GROUPS", key)]
    length = await session.link.ask("XLEN", key)
    return {"count": length, "groups": len(groups), "pending": sum(each["pending"] for each in groups)}


async def _count_group(session: Session, body: Body) -> Facts:
    summary = await session.link.ask("XPENDING", name_in(body, "stream"), name_in(body, "group"))
    return {"pending": summary[0], "consumers": len(summary[3] or [])}


async def _count_consumer(session: Session, body: Body) -> Facts:
    summary = await session.link.ask("XPENDING", name_in(body, "stream"), name_in(body, "group"))
    held = dict(summary[3] or [])
    return {"pending": int(held.get(name_in(body, "consumer"), 0))}


async def _compare_positions(session: Session, body: Body) -> Facts:
    """Say from where to where the group goes; entries between are given again, or never."""
    key, name = name_in(body, "stream"), name_in(body, "group")
    groups = [pairs(each) for each in await session.link.ask("XINFO", "GROUPS", key)]
    told = next((each for each in groups if each["name"] == name), None)
    if told is None:
        raise Refused(404, "no_group")
    now = told["last-delivered-id"].decode()
    facts = pairs(await session.link.ask("XINFO", "STREAM", key))
    target = text_in(body, "id")
    target = facts["last-generated-id"].decode() if target == "$" else target
    back = _order(target) < _order(now)
    first, last = (target, now) if back else (now, target)
    between = await session.link.ask("XRANGE", key, f"({first}", last, "COUNT", 1001) if first != last else []
    return {"from": now, "to": target, "back": back, "count": min(len(between), 1000), "more": len(between) > 1000}


def _order(id: str) -> tuple[int, int]:
    ms, _, seq = id.partition("-")
    return int(ms), int(seq or 0)


async def _count_dead(session: Session, body: Body) -> Facts:
    return {"count": await session.link.ask("XLEN", name_in(body, "stream"))}


async def _nothing(_session: Session, _body: Body) -> Facts:
    return {}


_ACTS: Final[dict[str, tuple[Callable[[Body], list[bytes]], Callable[[Session, Body], Awaitable[Facts]]]]] = {
    "add": (_add, _nothing),
    "delete": (_delete, _count_ids),
    "delete_stream": (_delete_stream, _count_stream),
    "ack": (_acknowledge, _count_ids),
    "claim": (_claim, _count_ids),
    "release": (_release, _count_ids),
    "set_position": (_set_position, _compare_positions),
    "create_group": (_create_group, _nothing),
    "destroy_group": (_destroy_group, _count_group),
    "delete_consumer": (_delete_consumer, _count_consumer),
    "redrive": (_redrive, _count_dead),
    "redrive_chosen": (_redrive_chosen, _count_ids),
    "end_redrive": (_end_redrive, _nothing),
    "reschedule": (_reschedule, _nothing),
    "unschedule": (_unschedule, _nothing),
    "forget_query": (_forget_query, _nothing),
    "kill_client": (_kill_client, _nothing),
}


async def run_act(session: Session, body: Body) -> dict[str, Any]:
    """Show or send the command of an act."""
    kind = text_in(body, "kind")
    if kind not in _ACTS:
        raise Refused(400, "request", "kind")
    make, look = _ACTS[kind]
    argv = make(body)
    told: dict[str, Any] = {"command": command_line(argv)}
    if body.get("preview"):
        return told | {"facts": await look(session, body)}
    reply = await session.link.act(*argv)
    session.known.clear()
    return told | {"reply": reply}
