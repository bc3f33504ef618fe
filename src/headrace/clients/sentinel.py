"""A redis-py client of the servers that Sentinels watch: each new connection goes to whoever is the master then.

    sentinel://user:password@host:port,host:port/name/db?option=value     sentinels:// for TLS everywhere

User and password are those of the servers; the options `sentinel_username` and `sentinel_password` are those of the
Sentinels. The other options are redis-py's. A Sentinel that was told late of a failover names the former master: each
connection asks the server for its role, too, and none is made to one that is no master any more. A client that has a
connection to a master which becomes a replica is disconnected, by the server or with the first write (READONLY).

With `from_replica` the connections go to the replicas, in turn, and to the master where there is none.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from redis import Redis
from redis import exceptions as refusals
from redis.backoff import NoBackoff
from redis.connection import SSLConnection, parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection

from headrace.clients.urls import take_apart

DEFAULT_PORT: Final = 26379
_PATIENCE_S: Final = 2.0  # for one Sentinel; the next one is asked then
_OF_TLS: Final = "ssl_"


class _MasterConnection(SentinelManagedConnection):
    """A connection to a server that is the master, and says so itself."""

    def connect_to(self, address: tuple[str, int]) -> None:
        """Connect, and ask for the role; a user that may not ask is not told."""
        super().connect_to(address)  # type: ignore[no-untyped-call]
        if not self.connection_pool.is_master:
            return
        try:
            self.send_command("ROLE")  # type: ignore[no-untyped-call]
            role = self.read_response(disable_decoding=True)
        except refusals.ResponseError:
            return
        if role[0] != b"master":
            self.disconnect()  # type: ignore[no-untyped-call]
            raise refusals.ConnectionError(f"{address[0]}:{address[1]} is not the master any more")


class _MasterTLSConnection(_MasterConnection, SSLConnection):
    """The same, encrypted."""


def make_client(
    url: str,
    *,
    from_replica: bool = False,
    defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Redis:
    """Make a client; nothing is sent yet. ValueError says what is wrong with the url.

    `defaults` are options of redis-py that count less than those of the url, `overrides` count more.
    """
    sentinels, name, options = _parse(url)
    options = {**(defaults or {}), **options, **(overrides or {})}
    tls = options.pop("ssl", False)
    asking: dict[str, Any] = {option: value for option, value in options.items() if option.startswith(_OF_TLS)}
    for option in ("username", "password"):
        asking[option] = options.pop(f"sentinel_{option}", None)
    manager = Sentinel(
        sentinels,
        sentinel_kwargs={
            **asking,
            "ssl": tls,
            "socket_timeout": _PATIENCE_S,
            "socket_connect_timeout": _PATIENCE_S,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        },
    )  # type: ignore[no-untyped-call]
    kind = _MasterTLSConnection if tls else _MasterConnection
    pool = SentinelConnectionPool(name, manager, is_master=not from_replica, connection_class=kind, **options)  # type: ignore[no-untyped-call]
    client: Redis = Redis.from_pool(pool)
    return client


def _parse(url: str) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """Read the Sentinels, the name that they know the servers by, and options of redis-py."""
    parts = take_apart(url)
    name, _, database = parts.path.removeprefix("/").partition("/")
    if not name:
        raise ValueError("it lacks the name of the master behind the last Sentinel, as in sentinel://host:port/name")
    if database and not database.isdigit():
        raise ValueError(f"the database {database!r} is no number")
    user = f"{parts.user}@" if parts.user is not None else ""
    options: dict[str, Any] = dict(parse_url(f"redis://{user}_/{database}?{parts.query}"))  # type: ignore[no-untyped-call]
    del options["host"]
    if parts.scheme == "sentinels":
        options["ssl"] = True
    return [_place(each) for each in parts.hosts.split(",")], unquote(name), options


def _place(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is no place of a Sentinel: write host:port")
    return parts.hostname, parts.port or DEFAULT_PORT
