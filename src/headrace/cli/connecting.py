"""A redis-py client of a server, and one sentence for each failure of it.

    with connected(address) as client:
        client.xlen("devmsg")

Every failure of the connection, the login or a command inside of the block comes out as a `CommandFailed` that
says what to do. Replies are bytes, in the shapes of RESP2, whatever the server prefers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, SentinelConnectionPool

from headrace.cli.address import ServerAddress
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import shown
from headrace.clients import sentinel, urls

_PATIENCE_S: Final = 5.0  # for a server that does not even refuse
_LONGEST_REPLY_S: Final = 120.0  # a DUMP of all that a server holds takes a while
# The replies of these commands are taken as they come: redis-py's dictionaries would lose repeated fields.
_ENTRY_COMMANDS: Final = ("XRANGE", "XREVRANGE", "XREAD", "XAUTOCLAIM")
_NAMED: Final = 5  # streams in the sentence about one that is not there


@contextmanager
def connected(address: ServerAddress, *, patience_s: float = _PATIENCE_S) -> Iterator[redis.Redis]:
    """Give a client of the server, and make sentences of what goes wrong with it."""
    client = make_client(address, patience_s=patience_s)
    try:
        yield client
    except redis.RedisError as error:
        raise CommandFailed(explanation(client, error)) from None
    finally:
        client.close()


def make_client(
    address: ServerAddress, *, patience_s: float = _PATIENCE_S, longest_reply_s: float = _LONGEST_REPLY_S
) -> redis.Redis:
    """Make a client; nothing is sent yet."""
    own = {"username": address.user, "password": address.password, "db": address.db}
    overrides = {name: value for name, value in own.items() if value is not None}
    defaults = {
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": patience_s,
        "socket_timeout": longest_reply_s,
    }
    try:
        if urls.is_sentinel(address.url):
            client = _watched_client(address, defaults, overrides)
        else:
            client = _plain_client(address, defaults, overrides)
    except ValueError as error:
        without_password = urls.shown(address.url).rpartition("@")[2]
        raise CommandFailed(f"{without_password!r} is no url of a server ({error}): write {urls.EXPECTED}.") from None
    for name in _ENTRY_COMMANDS:
        client.set_response_callback(name, lambda reply, **_: reply)
    return client


def _plain_client(address: ServerAddress, defaults: dict[str, Any], overrides: dict[str, Any]) -> redis.Redis:
    options: dict[str, Any] = dict(parse_url(address.url))  # type: ignore[no-untyped-call]
    tls = options.pop("connection_class", None) is redis.SSLConnection or address.tls
    place = {"host": address.host, "port": address.port}
    options.update({name: value for name, value in place.items() if value is not None})
    if "path" in options:
        options["unix_socket_path"] = options.pop("path")
    elif tls:
        options["ssl"] = True
    return redis.Redis(**(defaults | options | overrides))


def _watched_client(address: ServerAddress, defaults: dict[str, Any], overrides: dict[str, Any]) -> redis.Redis:
    if address.host is not None or address.port is not None:
        raise CommandFailed("The url names Sentinels, which know host and port: leave out --host and --port, or --url.")
    if address.tls:
        overrides = {**overrides, "ssl": True}
    return sentinel.make_client(address.url, defaults=defaults, overrides=overrides)


def ask(client: redis.Redis, *words: bytes | str | int) -> Any:
    """Send any command; a pipeline keeps it until the pipeline is executed."""
    return client.execute_command(*words)  # type: ignore[no-untyped-call]


def place_of(client: redis.Redis) -> str:
    """Name the place of a server for a person."""
    pool = client.connection_pool
    options = pool.connection_kwargs
    if isinstance(pool, SentinelConnectionPool):
        address = pool.master_address
        return f"{address[0]}:{address[1]}" if address else f"the place that Sentinels tell of {pool.service_name!r}"
    return options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"


def explanation(client: redis.Redis, error: redis.RedisError) -> str:
    """Say in one sentence what a failure means and what to do."""
    place = place_of(client)
    text = str(error).rstrip(".")
    if isinstance(error, redis.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        if client.connection_pool.connection_kwargs.get("password") is None:
            return f"The server at {place} wants a password: give it with --password, or in the url."
        return f"The server at {place} does not accept this user and password: check --user and --password."
    if isinstance(error, redis.BusyLoadingError):
        return f"The server at {place} is still loading its data: try again in a moment."
    if isinstance(error, redis.TimeoutError):
        return f"The server at {place} does not answer: check the address, and what lies between."
    if isinstance(error, MasterNotFoundError):
        return f"Sentinels know no master that is up ({text}): check their places, and the name at the end of the url."
    if isinstance(error, redis.ConnectionError):
        return (
            f"There is no server at {place} ({_reason(text)}): start one with `headrace serve`, or name another with "
            "--url."
        )
    if text.startswith("NOPERM") or "no permissions" in text:
        return f"The server at {place} does not permit this user to do that ({text}): ask with another --user."
    if text.startswith("WRONGTYPE"):
        return "The key holds something that is no stream: `headrace top` lists the streams."
    return f"The server at {place} refused: {text}."


def _reason(text: str) -> str:
    """Take the last words of what redis-py says; the sentence has the address already."""
    return text.rsplit(". ", 1)[-1]


# --- streams ---------------------------------------------------------------------------------------------------------


def require_stream(client: redis.Redis, key: bytes) -> None:
    """Refuse a key that is no stream, and name some that are."""
    kind = bytes(client.type(key))  # type: ignore[arg-type]
    if kind == b"stream":
        return
    if kind != b"none":
        raise CommandFailed(f"The key {shown(key)} holds a {kind.decode()}, not a stream.")
    names = sorted(stream_keys(client, most=1000))
    has = ", ".join(shown(name) for name in names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    raise CommandFailed(
        f"There is no stream {shown(key)} at {place_of(client)}"
        + (f"; it has {has}." if names else ", nor any other in this database.")
    )


def stream_keys(client: redis.Redis, pattern: str | bytes = "*", most: int | None = None) -> list[bytes]:
    """List the streams that match a pattern, each once, and no more than asked for."""
    found: dict[bytes, None] = {}
    for key in client.scan_iter(match=pattern, count=1000, _type="stream"):
        found[key] = None
        if most is not None and len(found) >= most:
            break
    return list(found)


def memory_figures(answer: list[Any] | dict[Any, Any]) -> dict[str, int]:
    """Read what HEADRACE MEMORY has said: names and numbers, in either protocol."""
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return {name.decode(): value for name, value in pairs}
