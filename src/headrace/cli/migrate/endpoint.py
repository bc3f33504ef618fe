"""One of the two servers of a move: what it is, its settings, and one sentence for each failure of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, explanation, make_client, place_of
from headrace.cli.errors import CommandFailed
from headrace.clients import urls

_KEYSPACE_PREFIX: Final = "db"


class Login(NamedTuple):
    """The facts that another server needs to follow this one."""

    host: str
    port: int
    user: str
    password: str
    tls: bool


class Endpoint:
    """The old or the new server. No reply is awaited for longer than `reply_s`."""

    def __init__(self, side: str, address: ServerAddress, reply_s: float) -> None:
        self.side = side  # "old" or "new"
        self._address = address
        self._reply_s = reply_s
        self._clients: dict[int, redis.Redis] = {}
        if urls.is_sentinel(address.url):
            raise CommandFailed(
                f"The url of the {side} server names Sentinels, which would take a move for a failure: name the server "
                "itself, and let Sentinel watch the new one afterwards."
            )
        self.client = self.database(0)

    def __str__(self) -> str:
        return f"The {self.side} server at {place_of(self.client)}"

    @property
    def announcing(self) -> str:
        """The option that says where the other server finds this one."""
        return f"{'--announce' if self.side == 'old' else '--announce-new'} HOST:PORT"

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def database(self, number: int) -> redis.Redis:
        """Return a client of a database."""
        client = self._clients.get(number)
        if client is None:
            client = make_client(replace(self._address, db=number), longest_reply_s=self._reply_s)
            self._clients[number] = client
        return client

    def login(self, announced: str | None) -> Login:
        """Return where and how the other server can reach this one; `announced` is a host and a port."""
        options = self.client.connection_pool.connection_kwargs
        tls = issubclass(self.client.connection_pool.connection_class, redis.SSLConnection)
        if announced is not None:
            host, _, port = announced.rpartition(":")
        elif "path" in options:
            raise CommandFailed(
                f"{self} is named by the path of a socket, which the other server cannot reach: say where it is with "
                f"{self.announcing}."
            )
        else:
            host, port = options.get("host", "localhost"), options.get("port", 6379)
        user, password = options.get("username") or "", options.get("password") or ""
        return Login(host.strip("[]"), int(port), user, password, tls)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Make a sentence of what goes wrong with this server."""
        try:
            yield
        except redis.AuthenticationError:
            given = self.client.connection_pool.connection_kwargs.get("password") is not None
            what = "does not accept the user and password of its url" if given else "wants a password"
            raise CommandFailed(
                f"{self} {what}: write redis://user:password@host:port, or use --{self.side}-password."
            ) from None
        except redis.BusyLoadingError:
            raise ServerLoading(f"{self} is still loading its data: try again in a moment.") from None
        except redis.TimeoutError:
            raise CommandFailed(f"{self} does not answer.") from None
        except redis.ConnectionError as error:
            reason = str(error).rstrip(".").rsplit(". ", 1)[-1]
            raise CommandFailed(f"{self} cannot be reached ({reason}).") from None
        except redis.RedisError as error:
            raise CommandFailed(explanation(self.client, error)) from None

    def ask(self, *words: bytes | str | int, database: int = 0) -> Any:
        """Send a command."""
        with self.explained():
            return ask(self.database(database), *words)

    # --- what it is ------------------------------------------------------------------------------------------------

    def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""
        with self.explained():
            return dict(self.client.info(section))

    def product(self) -> str:
        """Name the program and its version."""
        info = self.info("server")
        if "headrace_version" in info:
            return f"Headrace {info['headrace_version']}"
        if "valkey_version" in info:
            return f"Valkey {info['valkey_version']}"
        return f"Redis {info.get('redis_version', '')}"

    def key_counts(self) -> dict[int, int]:
        """Return how many keys each database has that has any."""
        return {
            int(name.removeprefix(_KEYSPACE_PREFIX)): int(facts["keys"])
            for name, facts in self.info("keyspace").items()
            if name.startswith(_KEYSPACE_PREFIX)
        }

    # --- settings --------------------------------------------------------------------------------------------------

    def setting(self, name: str) -> str:
        """Return a setting; the empty text where the server has none of that name."""
        reply = self.ask("CONFIG", "GET", name)
        return reply[1].decode() if reply else ""

    def change_settings(self, settings: dict[str, str]) -> None:
        """Change settings until the next restart."""
        for name, value in settings.items():
            self.ask("CONFIG", "SET", name, value)


class ServerLoading(CommandFailed):
    """The server reads its data and answers hardly anything yet."""
