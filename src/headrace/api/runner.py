"""The seam between streams and what runs their commands: an engine in this process, or a server.

    Database, Stream, Group, Consumer, Tail ─► CommandRunner ─┬─ embedded/local_client     the engine of this process
                                                              └─ remote/client             connections to a server

A request is a list of bytes; a reply is bytes, int, float, bool, None, a list, or a dict, as RESP3 has them, and a
refusal is raised. Streams know nothing of sockets or locks, and all that runners know of streams is how to add rows.

A method that needs several commands is written once, as a plan: a generator that yields requests and is sent their
replies. `follow` and `afollow` run it for threads and for coroutines.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.api.errors import MissingLibrary, Refused
from headrace.core.stream_id import StreamID

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

_T = TypeVar("_T")

Request = list[bytes]
Plan = Generator[
    Request | tuple[Request, ...], Any, _T
]  # several requests go together, and the last one's reply counts


class CommandRunner(Protocol):
    """Runs commands. Every method may be called from any thread, those with an `a` from any event loop."""

    longest_wait: float | None
    """For how many seconds at most one request should wait for messages; None: for as long as it likes."""

    @property
    def place(self) -> str:
        """Where the data is, for people."""

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""

    def close(self) -> None:
        """Let every call end, those that wait with a DatabaseClosed."""

    async def aclose(self) -> None:
        """Do the same from a coroutine."""

    def call(self, *argv: bytes) -> Any:
        """Run a command and return its reply."""

    def call_all(self, *requests: Request) -> Any:
        """Run commands, and return the reply of the last when all have theirs; raise the first refusal."""

    async def acall(self, *argv: bytes) -> Any:
        """Run a command and return its reply, while other coroutines go on."""

    async def acall_all(self, *requests: Request) -> Any:
        """Do the same as `call_all` in a coroutine."""

    def add(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Add a row of names and values, which is not empty."""

    async def aadd(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Do the same in a coroutine."""

    def add_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Add rows; return how many."""

    async def aadd_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Do the same in a coroutine."""

    def redis(self, options: dict[str, Any]) -> Redis:
        """Make a redis-py client of the same data."""

    def aredis(self, options: dict[str, Any]) -> AsyncRedis:
        """Make one for asyncio."""


def follow(runner: CommandRunner, plan: Plan[_T]) -> _T:
    """Run the requests of a plan, and return what it makes of their replies."""
    try:
        request = next(plan)
        while True:
            try:
                reply = runner.call_all(*request) if isinstance(request, tuple) else runner.call(*request)
            except Refused as refusal:
                request = plan.throw(refusal)
            else:
                request = plan.send(reply)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def afollow(runner: CommandRunner, plan: Plan[_T]) -> _T:
    """Do the same in a coroutine."""
    try:
        request = next(plan)
        while True:
            try:
                if isinstance(request, tuple):
                    reply = await runner.acall_all(*request)
                else:
                    reply = await runner.acall(*request)
            except Refused as refusal:
                request = plan.throw(refusal)
            else:
                request = plan.send(reply)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def add_request(key: bytes, row: Mapping[Any, Any]) -> Request:
    """Write the XADD of a row."""
    return [b"XADD", key, b"*", *texts_of(row)]


def texts_of(row: Mapping[Any, Any]) -> list[bytes]:
    """Write the names and values of a message, in turn."""
    if not row:
        raise ValueError("a message needs at least one field")
    return [text_of(text) for pair in row.items() for text in pair]


def text_of(value: object) -> bytes:
    """Write a name or a value as it is stored."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes | bytearray | memoryview | StreamID):
        return bytes(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (int.__repr__(value) if isinstance(value, int) else float.__repr__(value)).encode()
    raise TypeError(
        f"{value!r} is a {type(value).__name__}, which is none of str, bytes, int, float and StreamID: say how it is "
        "to be written (json.dumps writes most things)"
    )


def require_redis(method: str) -> None:
    """Raise MissingLibrary where redis-py is not installed, which nothing else here needs."""
    if not is_installed("redis"):
        raise MissingLibrary(f"{method} needs redis-py, which is not installed: pip install 'headrace[redis]'")


def is_installed(library: str) -> bool:
    """Whether a library can be imported."""
    try:
        return find_spec(library) is not None
    except ImportError:
        return False
