"""`headrace group list` and `headrace group pending`: tables, or JSON."""

import json
from typing import Any, Final

import redis
from rich.table import Table
from rich.text import Text

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import connected, require_stream, stream_keys
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import duration, lossless, number, raw, shown
from headrace.cli.terminal import output_console
from headrace.cli.times import written

_UNBROKEN: Final = {"id", "added", "last delivered"}  # columns whose cells are whole, however narrow the terminal


def run_list(server: ServerAddress, name: str | None, *, as_json: bool) -> None:
    """List the groups of one stream, or of all."""
    with connected(server) as client:
        if name is not None:
            require_stream(client, raw(name))
        keys = sorted(stream_keys(client)) if name is None else [raw(name)]
        listed = [(key, group) for key in keys for group in client.xinfo_groups(key)]
        consumers = [client.xinfo_consumers(key, group["name"]) for key, group in listed]
        oldest = [_oldest_pending(client, key, group) for key, group in listed]
    if as_json:
        told = [
            {
                "stream": lossless(key),
                "group": lossless(group["name"]),
                "last_delivered_id": group["last-delivered-id"].decode(),
                "entries_read": group.get("entries-read"),
                "lag": group.get("lag"),
                "pending": group["pending"],
                "oldest_pending": first,
                "consumers": [
                    {"name": lossless(each["name"]), "pending": each["pending"], "idle_ms": each["idle"]}
                    for each in those
                ],
            }
            for (key, group), those, first in zip(listed, consumers, oldest, strict=True)
        ]
        print(json.dumps(told))  # noqa: T201
        return
    table = _table("stream", "group", "last delivered", right=("lag", "pending", "oldest"))
    table.add_column("consumers", overflow="fold")
    for (key, group), those, first in zip(listed, consumers, oldest, strict=True):
        table.add_row(
            Text(shown(key)),
            Text(shown(group["name"])),
            group["last-delivered-id"].decode(),
            "?" if group.get("lag") is None else number(group["lag"]),
            number(group["pending"]),
            _age(first),
            Text(", ".join(f"{shown(each['name'])} (idle {duration(each['idle'])})" for each in those)),
        )
    _print(table, "There are no groups.")


def _oldest_pending(client: redis.Redis, key: bytes, group: dict[str, Any]) -> dict[str, Any] | None:
    """Return how long the first pending entry has been waiting, and how often it was delivered."""
    if not group["pending"]:
        return None
    found: list[dict[str, Any]] = client.xpending_range(key, group["name"], "-", "+", 1)
    if not found:
        return None
    first = found[0]
    return {
        "id": first["message_id"].decode(),
        "idle_ms": first["time_since_delivered"],
        "deliveries": first["times_delivered"],
    }


def _age(oldest: dict[str, Any] | None) -> str:
    if oldest is None:
        return ""
    retries = f" ×{oldest['deliveries']}" if oldest["deliveries"] > 1 else ""
    return duration(oldest["idle_ms"]) + retries


def run_pending(
    server: ServerAddress,
    name: str,
    group: str,
    *,
    consumer: str | None,
    idle_ms: int,
    count: int,
    as_json: bool,
) -> None:
    """List pending entries."""
    with connected(server) as client:
        require_group(client, raw(name), raw(group))
        who = None if consumer is None else raw(consumer)
        # Asked for one more than is shown, to know whether there are more.
        records: list[dict[str, Any]] = client.xpending_range(
            raw(name), raw(group), "-", "+", count + 1, who, idle_ms or None
        )
    if as_json:
        told = [
            {
                "id": record["message_id"].decode(),
                "consumer": lossless(record["consumer"]),
                "idle_ms": record["time_since_delivered"],
                "deliveries": record["times_delivered"],
            }
            for record in records[:count]
        ]
        print(json.dumps(told))  # noqa: T201
        return
    table = _table("id", "added", "consumer", right=("idle", "deliveries"))
    for record in records[:count]:
        id = record["message_id"].decode()
        table.add_row(
            id,
            written(int(id.split("-")[0])),
            Text(shown(record["consumer"])),
            duration(record["time_since_delivered"]),
            number(record["times_delivered"]),
        )
    _print(table, "Nothing is pending.")
    if len(records) > count:
        output_console().print(Text(f"and more: --count {count * 5}", style="dim"))


def require_group(client: redis.Redis, key: bytes, group: bytes) -> dict[str, object]:
    """Return what XINFO tells of a group; refuses one that is not there, and names those that are."""
    require_stream(client, key)
    groups = client.xinfo_groups(key)
    for told in groups:
        if told["name"] == group:
            return dict(told)
    has = ", ".join(shown(told["name"]) for told in groups)
    raise CommandFailed(
        f"There is no group {shown(group)} in the stream {shown(key)}"
        + (f"; it has {has}." if has else f": make it with `headrace group create {shown(key)} {shown(group)}`.")
    )


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in left:
        table.add_column(name, overflow="fold", no_wrap=name in _UNBROKEN)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _print(table: Table, otherwise: str) -> None:
    console = output_console()
    if table.row_count:
        console.print(table)
    else:
        console.print(otherwise)
