"""A user's link to the server: ordinary commands, as that user, with replies as they come.

    ask         one command; reads are sent once more where the connection was lost, acts never
    ask_all     many at once; an answer may be an error

`read_product` says which server it is, and what of the console it can answer.

Every failure is a `Refused`: the server is away, or wants a password, or does not permit it.
"""

from collections.abc import Sequence
from typing import Any, Final

from redis import asyncio as redis_asyncio
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import parse_url

from headrace.console.errors import CannotShow, Refused

Word = bytes | str | int

_MOST_CONNECTIONS: Final = 8
_CONNECT_S: Final = 5.0
_REPLY_S: Final = 20.0
_AT_ONCE: Final = 500  # commands in one pipeline


def place_of(url: str) -> str:
    """Name the server of a url for a person, without user and password."""
    try:
        options = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise CannotShow(
            f"{url.rpartition('@')[2]!r} is no url of a server ({error}): write redis://host:port, rediss:// or unix://."
        ) from None
    return str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")


class ServerLink:
    """See the module."""

    def __init__(self, url: str, username: str | None = None, password: str | None = None) -> None:
        options: dict[str, Any] = {
            **parse_url(url),  # type: ignore[no-untyped-call]
            "username": username,
            "password": password,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": _CONNECT_S,
            "socket_timeout": _REPLY_S,
        }
        kind = options.pop("connection_class", None)
        pool = redis_asyncio.ConnectionPool(_asyncio_class(kind, options), max_connections=_MOST_CONNECTIONS, **options)
        self._client = redis_asyncio.Redis(connection_pool=pool)
        self._client.response_callbacks.clear()  # replies as they come: dictionaries lose repeated fields

    async def close(self) -> None:
        """End its connections."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def ask(self, *words: Word) -> Any:
        """Send a command that changes nothing."""
        try:
            return await self._send(*words)
        except exceptions.ConnectionError:  # an old connection to a server that was started again
            return await self.act(*words)

    async def act(self, *words: Word) -> Any:
        """Send a command once."""
        try:
            return await self._send(*words)
        except exceptions.RedisError as error:
            raise refusal_of(error) from None

    async def _send(self, *words: Word) -> Any:
        try:
            return await self._client.execute_command(*words)  # type: ignore[no-untyped-call]
        except exceptions.ConnectionError:
            raise
        except exceptions.RedisError as error:
            raise refusal_of(error) from None

    async def ask_all(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        """Send many commands that change nothing."""
        replies: list[Any] = []
        for start in range(0, len(commands), _AT_ONCE):
            some = commands[start : start + _AT_ONCE]
            try:
                replies += await self._send_all(some)
            except exceptions.ConnectionError:
                try:
                    replies += await self._send_all(some)
                except exceptions.RedisError as error:
                    raise refusal_of(error) from None
        return replies

    async def _send_all(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        try:
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        except exceptions.TimeoutError as error:
            raise refusal_of(error) from None
        return replies


def _asyncio_class(kind: Any, options: dict[str, Any]) -> Any:
    """Return the class of connections that a url asks for; redis-py names those that are not asynchronous."""
    if "path" in options:
        return redis_asyncio.UnixDomainSocketConnection
    if kind is not None and "SSL" in kind.__name__:
        return redis_asyncio.SSLConnection
    return redis_asyncio.Connection


def refusal_of(error: exceptions.RedisError) -> Refused:
    """Say what a failure means to the page."""
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return Refused(401, "password", text)
    if isinstance(error, exceptions.NoPermissionError) or text.startswith("NOPERM") or "no permissions" in text:
        return Refused(403, "permission", text)
    if isinstance(error, exceptions.BusyLoadingError):
        return Refused(503, "loading", text)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return Refused(503, "away", text)
    return Refused(400, "server", text)


def pairs(reply: Any) -> dict[str, Any]:
    """Make a dictionary of names and values in turn."""
    if isinstance(reply, dict):
        return {_name(name): value for name, value in reply.items()}
    return {_name(name): value for name, value in zip(reply[::2], reply[1::2], strict=False)}


def _name(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def info_of(reply: bytes | str) -> dict[str, str]:
    """Read INFO."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            found[name] = value
    return found


async def read_product(link: ServerLink) -> dict[str, Any]:
    """Ask a server what product it is; a user without permission for INFO gets what is known without it."""
    await link.ask("PING")
    product: dict[str, Any] = {"name": "", "version": "", "headrace": False, "xnack": False}
    try:
        info = info_of(await link.ask("INFO", "server"))
    except Refused as refusal:
        if refusal.code != "permission":
            raise
        info = {}
    if "headrace_version" in info:
        product |= {"name": "Headrace", "version": info["headrace_version"], "headrace": True}
    elif info.get("server_name") == "valkey":
        product |= {"name": "Valkey", "version": info.get("valkey_version", "")}
    elif info:
        product |= {"name": "Redis", "version": info.get("redis_version", "")}
    try:
        product["xnack"] = bool((await link.ask("COMMAND", "INFO", "XNACK"))[0])
    except (Refused, IndexError):
        product["xnack"] = product["headrace"]
    return product
