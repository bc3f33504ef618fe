"""Connecting to a server: `headrace.connect` and `headrace.connect_async`."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

from headrace.api.database import Database
from headrace.clients.urls import shown
from headrace.remote.address import parse_address
from headrace.remote.client import RemoteClient


def connect(url: str, *, timeout: float, patience: float) -> Database:
    """Do what `headrace.connect` says."""
    client = RemoteClient(parse_address(url), url, timeout=timeout, patience=patience)
    client.open()
    return Database(client, url=shown(url))


class Connecting:
    """A connection that is on its way: `async with` and `await` give the database."""

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        """Made by `headrace.connect_async`."""
        self._client = RemoteClient(parse_address(url), url, timeout=timeout, patience=patience)
        self._database = Database(self._client, url=shown(url))

    async def _open(self) -> Database:
        await self._client.aopen()
        return self._database

    def __await__(self) -> Generator[Any, None, Database]:
        return self._open().__await__()

    async def __aenter__(self) -> Database:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._database.aclose()
