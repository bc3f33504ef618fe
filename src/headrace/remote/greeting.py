"""The first words on a connection, and the meaning of the answers.

    a server      HELLO 3 AUTH user password, SELECT db, and ROLE where Sentinels have named it
    a Sentinel    AUTH, SENTINEL GET-MASTER-ADDR-BY-NAME name

A Sentinel that was told late of a failover names the former master, so that the server itself is asked for its role.
"""

from __future__ import annotations

from typing import Any

from headrace.api.errors import CannotConnect, Refused
from headrace.api.runner import Request
from headrace.remote.address import Address, Place


class NotYet(CannotConnect):
    """The server is there and cannot be used yet: it loads its data, or it is no master any more."""


def first_requests(address: Address) -> list[Request]:
    """Write what is sent to a server first."""
    hello = [b"HELLO", b"3", *([b"AUTH", *address.user] if address.user else [])]
    requests = [hello, [b"SELECT", b"%d" % address.database]] if address.database else [hello]
    return [*requests, [b"ROLE"]] if address.master is not None else requests


def check_answers(address: Address, place: Place, replies: list[Any]) -> None:
    """Raise CannotConnect where the server does not let us in, or is not the one that we look for."""
    hello, *others = replies
    for reply in (hello, *(others[:1] if address.database else ())):
        if isinstance(reply, Refused):
            if reply.code == "LOADING":
                raise NotYet(f"The server {place_text(place)} still loads its data.")
            hint = ": it is older than Redis 6" if "unknown command" in str(reply) else ""
            hint = hint or (
                ": the url has no password, or a wrong one" if reply.code in ("NOAUTH", "WRONGPASS") else ""
            )
            raise CannotConnect(f"The server {place_text(place)} refuses the connection ({reply}){hint}.")
    if address.master is not None:
        role = others[-1]
        # A user that may not ask for the role is not told it.
        if not isinstance(role, Refused) and role[0] != b"master":
            raise NotYet(f"{place_text(place)} is not the master any more.")


def sentinel_requests(address: Address) -> list[Request]:
    """Write the request to a Sentinel."""
    login = [[b"AUTH", *address.sentinel_user]] if address.sentinel_user else []
    return [*login, [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", address.master or b""]]


def read_master(address: Address, sentinel: Place, replies: list[Any]) -> tuple[str, int]:
    """Read where the master is."""
    for reply in replies:
        if isinstance(reply, Refused):
            raise CannotConnect(f"The Sentinel {place_text(sentinel)} refuses to answer ({reply}).")
    if replies[-1] is None:
        raise CannotConnect(f"The Sentinel {place_text(sentinel)} knows no master {(address.master or b'').decode()}.")
    host, port = replies[-1]
    return host.decode(), int(port)


def place_text(place: Place) -> str:
    """Show a place."""
    return place if isinstance(place, str) else f"{place[0]}:{place[1]}"
