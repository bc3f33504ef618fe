"""The servers that the option `url` names: connecting, asking, and what went wrong in one sentence.

    Server ─┬─ one redis-server, Valkey or Headrace      every key is there
            ├─ servers that Sentinels watch              the one that is the master when a connection is made
            └─ a cluster                                 the node that has the key's slot

Replies come as they are on the wire (lists of bytes), because a client that makes dictionaries of entries loses
repeated fields. A command that may be repeated is sent again while the server is away or loading, until `retryTimeout`
is over: in a cluster to the node that has the slot by then, after a failover to the new master. Other commands are sent
once. A Server that is not `patient` does not wait for a server that never answered. A Server is not pickled: each
process of Spark makes its own.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from redis import Redis, RedisCluster
from redis import exceptions as refusals
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError, ResponseError
from redis.retry import Retry

from headrace.clients import sentinel
from headrace.clients.urls import is_sentinel, shown
from headrace.spark.errors import AccessRefused, BadOption, CommandRefused, NotAStream, ServerUnreachable

Argument = bytes | str | int | float
Command = tuple[Argument, ...]

_RAW: Final = (
    *("XRANGE", "XREVRANGE", "XREAD", "XINFO STREAM", "XINFO GROUPS", "SCAN", "XADD", "XINFO", "XPENDING"),
    "COMMAND",
)
_GONE: Final = (
    *(refusals.ConnectionError, refusals.TimeoutError),
    *(refusals.BusyLoadingError, refusals.ClusterDownError),
)
_REFUSED: Final = (refusals.AuthenticationError, refusals.AuthorizationError, refusals.NoPermissionError)
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_SOCKET_TIMEOUT_S: Final = 60.0
_WATCHED_TIMEOUT_S: Final = 10.0  # where Sentinels put another server in the place of one that hangs
_NOT_NOW: Final = "NOREPLICAS"  # a master has too few replicas, as for a while after a failover
_SCAN_COUNT: Final = 1000

_T = TypeVar("_T")


class Server:
    """One server, or one cluster; `from_replica`: of servers that Sentinels watch, not the master, but a replica."""

    def __init__(self, url: str, retry_seconds: float, *, patient: bool = False, from_replica: bool = False) -> None:
        self.name = shown(url)
        """The url without its password."""
        self._url = url
        self._from_replica = from_replica
        self._retry_seconds = retry_seconds
        self._client = self._connect(url)
        self._cluster: RedisCluster | None = None
        self._met = False
        self.patient = patient

    def ask(self, *command: Argument, key: bytes | None = None) -> Any:
        """Run a command that may be repeated; `key` says where, in a cluster."""
        return self._retried(lambda: _run(self._node(key), command), key)

    def read_all(self, commands: Iterable[tuple[bytes, Command]]) -> list[Any]:
        """Run commands that may be repeated, each given with its key, one round trip a node; errors are replies."""
        listed = list(commands)
        return self._retried(lambda: self._pipelined(listed), listed[0][0] if listed else None)

    def write(self, *command: Argument, key: bytes) -> Any:
        """Run a command that must not be repeated."""
        return self._explained(lambda: _run(self._node(key), command), key)

    def write_all(self, key: bytes, commands: Iterable[Command]) -> list[Any]:
        """Run commands that write to one key, once, in one round trip; the first error is raised."""
        replies = self.try_all(key, commands)
        for reply in replies:
            if isinstance(reply, RedisError):
                raise self._sentence(reply, key)
        return replies

    def try_all(self, key: bytes, commands: Iterable[Command]) -> list[Any]:
        """Run commands that write to one key, once, in one round trip; errors of commands are replies."""

        def run() -> list[Any]:
            with self._node(key).pipeline(transaction=False) as pipeline:
                for command in commands:
                    _run(pipeline, command)
                return pipeline.execute(raise_on_error=False)

        return self._explained(run, key)

    def has_command(self, name: str) -> bool:
        """Whether the server knows a command, and this user may ask."""

        def look_up() -> Any:
            try:
                return _run(self._node(None), ("COMMAND", "INFO", name))
            except refusals.NoPermissionError:
                return [None]

        return bool(self._retried(look_up, None)[0])

    def version(self) -> tuple[int, ...]:
        """Return the Redis version that the server claims to be."""
        info = self._retried(lambda: self._node(None).info("server"), None)
        return tuple(int(part) for part in str(info.get("redis_version", "0")).split(".") if part.isdigit())

    def matching_streams(self, pattern: bytes) -> list[bytes]:
        """Return the streams whose names match a glob pattern, in the order of their names."""
        found: set[bytes] = set()
        for node in self._retried(self._nodes, None):
            cursor: Any = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT, "TYPE", "stream")
                cursor, keys = self._retried(partial(_run, node, command), None)
                found.update(keys)
                if int(cursor) == 0:
                    break
        return sorted(found)

    def groups(self, key: bytes) -> list[dict[bytes, Any]]:
        """Return the reply of XINFO GROUPS, a dictionary for each group."""
        return [dict(zip(group[::2], group[1::2], strict=True)) for group in self.ask("XINFO", "GROUPS", key, key=key)]

    def slot(self, key: bytes) -> int:
        """Return a number that is the same for keys which one command may name together."""
        self._node(None)
        return 0 if self._cluster is None else key_slot(key)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _connect(self, url: str) -> Redis:
        options = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "decode_responses": False}
        try:
            if is_sentinel(url):
                timeouts = {"socket_timeout": _WATCHED_TIMEOUT_S, "socket_connect_timeout": _WATCHED_TIMEOUT_S}
                client = sentinel.make_client(url, from_replica=self._from_replica, defaults=options | timeouts)
            else:
                client = Redis.from_url(url, socket_timeout=_SOCKET_TIMEOUT_S, **options)
        except (ValueError, TypeError) as error:
            raise BadOption("url", self.name, f"cannot be understood: {error}") from None
        return _raw(client)

    def _node(self, key: bytes | None) -> Redis:
        """Return the client of the node that has the key."""
        if not self._met:
            self._meet()
        if self._cluster is None or key is None:
            return self._client
        node = self._cluster.nodes_manager.get_node_from_slot(key_slot(key))
        return _raw(node.redis_connection)

    def _nodes(self) -> list[Redis]:
        self._node(None)
        if self._cluster is None:
            return [self._client]
        return [_raw(node.redis_connection) for node in self._cluster.nodes_manager.get_nodes_by_server_type("primary")]

    def _meet(self) -> None:
        """Find out before the first command whether this is a cluster; if the user may not ask, it is one server."""
        try:
            is_cluster = self._client.info("cluster").get("cluster_enabled") == 1
        except refusals.NoPermissionError:
            is_cluster = False
        if is_cluster:
            self._cluster = RedisCluster.from_url(self._url, protocol=2, retry=Retry(NoBackoff(), 0))
        self._met = True

    def _learn_nodes(self) -> None:
        """Ask a cluster again which node has which slots; where no node answers, the next attempt asks once more."""
        if self._cluster is not None:
            with suppress(RedisError):
                self._cluster.nodes_manager.initialize()

    def _pipelined(self, commands: list[tuple[bytes, Command]]) -> list[Any]:
        nodes: dict[int, tuple[Redis, list[int]]] = {}
        for place, (key, _) in enumerate(commands):
            client = self._node(key)
            nodes.setdefault(id(client), (client, []))[1].append(place)
        replies: list[Any] = [None] * len(commands)
        for client, places in nodes.values():
            with client.pipeline(transaction=False) as pipeline:
                for place in places:
                    _run(pipeline, commands[place][1])
                for place, reply in zip(places, pipeline.execute(raise_on_error=False), strict=True):
                    if isinstance(reply, (*_GONE, MovedError, *_REFUSED)):
                        raise reply
                    replies[place] = reply
        return replies

    def _retried(self, run: Callable[[], _T], key: bytes | None) -> _T:
        """Run what may be repeated until it succeeds or the time is over."""
        deadline = time.monotonic() + self._retry_seconds
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return run()
            except _REFUSED as refused:
                raise self._sentence(refused, key) from None
            except (*_GONE, MovedError) as error:
                if time.monotonic() + pause > deadline or not (self._met or self.patient):
                    raise self._sentence(error, key) from None
            except RedisError as refused:
                if not str(refused).startswith(_NOT_NOW) or time.monotonic() + pause > deadline:
                    raise self._sentence(refused, key) from None
            time.sleep(pause)
            self._learn_nodes()
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _explained(self, run: Callable[[], _T], key: bytes | None) -> _T:
        try:
            return run()
        except RedisError as error:
            raise self._sentence(error, key) from None

    def _sentence(self, error: RedisError, key: bytes | None) -> Exception:
        return explain(error, self.name, key)


def explain(error: RedisError, name: str, key: bytes | None) -> Exception:
    """Say in one sentence what a server answered, or that it did not."""
    where = f"option 'url' is {name!r}:"
    on = "" if key is None else f" (key {key.decode(errors='backslashreplace')!r})"
    if isinstance(error, _REFUSED):
        return AccessRefused(f"{where} the server refuses: {error}{on}; check the user and the password in the url")
    if isinstance(error, _GONE):
        return ServerUnreachable(f"{where} the server does not answer: {error}")
    if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
        return NotAStream(f"option 'keys': the key {_key(key)} on {name} is not a stream")
    return CommandRefused(f"{where} the server answers: {error}{on}")


def _raw(client: Redis) -> Redis:
    for name in _RAW:
        client.response_callbacks[name] = _as_is
    return client


def _run(client: Redis, command: Command) -> Any:
    return client.execute_command(*command)  # type: ignore[no-untyped-call]  # (redis-py's)


def _as_is(reply: Any, **_: Any) -> Any:
    return reply


def _key(key: bytes | None) -> str:
    return "?" if key is None else repr(key.decode(errors="backslashreplace"))
