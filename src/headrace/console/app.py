"""The console as a web application: a page with its files, login, and an interface of JSON.

    GET  /  /static/…            the page; it has no data
    POST /api/login              {"user": …, "password": …} ─► a cookie
    POST /api/NAME  {…}          a reading or an act of `api`, as the user of the session; JSON in, JSON out
    POST /api/tail  {…}          lines of JSON, as entries come
    POST /api/export {…}         ─► the path of a file, which can be loaded once
    GET  /export/TICKET          entries as lines of JSON, as many as there are

Every POST but the login needs the session's cookie and its token in X-CSRF-Token. All of them need a JSON body, which
forms of other sites cannot send without being asked for permission first.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from time import monotonic
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import headrace
from headrace.console.api import READINGS
from headrace.console.api.acts import run_act
from headrace.console.api.entries import export_entries
from headrace.console.api.questions import name_in
from headrace.console.api.tail import follow
from headrace.console.errors import Refused
from headrace.console.gate import Gate
from headrace.console.link import ServerLink, place_of, read_product
from headrace.console.sessions import COOKIE, Session, Sessions
from headrace.console.texts import to_json

_STATIC: Final = Path(__file__).parent / "static"
_MOST_BODY: Final = 1 << 20
_BODY_S: Final = 10.0  # in which a request must be complete
_FAILED_LOGIN_S: Final = 0.5
_MOST_LOGINS: Final = 4  # at a time: with the wait above, eight passwords a second can be guessed
_MOST_TAILS: Final = 4  # of one session, at a time
_MOST_EXPORTS: Final = 8  # of one session, that were asked for and not loaded yet


@dataclass(frozen=True)
class ConsoleOptions:
    """The options that the console was started with."""

    url: str
    read_only: bool = False
    needs_password: bool = False  # it is reached from other machines
    secure: bool = False  # by TLS
    hosts: set[str] = field(default_factory=set)


def make_app(options: ConsoleOptions) -> Gate:
    """Make the application."""
    console = _Console(options)
    routes = [
        Route("/", console.page),
        Route("/api/login", console.login, methods=["POST"]),
        Route("/api/logout", console.logout, methods=["POST"]),
        Route("/api/session", console.session, methods=["POST"]),
        Route("/api/tail", console.tail, methods=["POST"]),
        Route("/api/export", console.ask_export, methods=["POST"]),
        Route("/export/{ticket}", console.export),
        Route("/api/act", console.act, methods=["POST"]),
        Route("/api/{name}", console.reading, methods=["POST"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await console.sessions.end_all()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={Refused: _answer_refusal, UnicodeEncodeError: _answer_no_text},
    )
    return Gate(app, options.hosts)


def _json(value: Any, status: int = 200) -> Response:
    return Response(
        to_json(value), status, headers={"Cache-Control": "no-store"}, media_type="application/json; charset=utf-8"
    )


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)  # noqa: S101 - it is registered for these
    return _json({"error": error.code, "text": error.text}, error.status)


async def _answer_no_text(_request: Request, _error: Exception) -> Response:
    """Answer a request with half a character in it, which no bytes stand for."""
    return _json({"error": "request", "text": ""}, 400)


async def _body(request: Request) -> dict[str, Any]:
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise Refused(415, "request")
    data = b""
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > _MOST_BODY:
                    raise Refused(413, "too_large")
    except TimeoutError:
        raise Refused(408, "request") from None
    try:
        body = json.loads(data or b"{}")
    except ValueError:
        raise Refused(400, "request") from None
    if not isinstance(body, dict):
        raise Refused(400, "request")
    return body


def _lines_of(entries: list[list[Any]]) -> bytes:
    """Write entries as lines of JSON: {"id": …, "fields": [[name, value], …]}."""
    rows = ({"id": id, "fields": list(zip(fields[::2], fields[1::2], strict=True))} for id, fields in entries)
    return b"".join(to_json(row) + b"\n" for row in rows)


class _Console:
    def __init__(self, options: ConsoleOptions) -> None:
        self.sessions = Sessions()
        self._options = options
        self._place = place_of(options.url)
        self._logins = 0

    async def page(self, _request: Request) -> Response:
        return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    # --- users ---------------------------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        body = await _body(request)
        if self._logins >= _MOST_LOGINS:
            raise Refused(429, "too_many_logins")
        self._logins += 1
        try:
            return await self._log_in(request, body)
        finally:
            self._logins -= 1

    async def _log_in(self, request: Request, body: dict[str, Any]) -> Response:
        user, password = str(body.get("user") or "default"), str(body.get("password") or "")
        if self._options.needs_password:
            await self._refuse_open_server()
        link = ServerLink(self._options.url, user if password else None, password or None)
        try:
            if user != "default" and not password:
                raise Refused(401, "password")
            session = Session(user, link, product=await read_product(link))
        except Refused as refusal:
            await link.close()
            if refusal.status == 401:
                await asyncio.sleep(_FAILED_LOGIN_S)
            raise
        await self.sessions.end(request.cookies.get(COOKIE))
        cookie = await self.sessions.add(session)
        response = _json(self._about(session))
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=self._options.secure, path="/")
        return response

    async def _refuse_open_server(self) -> None:
        """Refuse to give a server that asks for no password to other machines."""
        nobody = ServerLink(self._options.url)
        try:
            await nobody.ask("PING")
        except Refused as refusal:
            if refusal.status == 503:
                raise
            return
        finally:
            await nobody.close()
        raise Refused(403, "open_server")

    async def logout(self, request: Request) -> Response:
        self._session(request)
        await self.sessions.end(request.cookies.get(COOKIE))
        response = _json({})
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def session(self, request: Request) -> Response:
        """Tell a page that was loaded again who is logged in; its token is for pages of this console only."""
        await _body(request)
        session = self.sessions.find(request.cookies.get(COOKIE))
        about = {"server": self._place, "version": headrace.__version__}
        return _json(about if session is None else self._about(session))

    def _about(self, session: Session) -> dict[str, Any]:
        return {
            "server": self._place,
            "version": headrace.__version__,
            "user": session.user,
            "token": session.token,
            "read_only": self._options.read_only,
            "product": session.product,
        }

    def _session(self, request: Request) -> Session:
        session = self.sessions.find(request.cookies.get(COOKIE))
        if session is None:
            raise Refused(401, "session")
        if not compare_digest(request.headers.get("x-csrf-token", "").encode(), session.token.encode()):
            raise Refused(403, "token")
        return session

    # --- what ----------------------------------------------------------------------------------------------------

    async def reading(self, request: Request) -> Response:
        session = self._session(request)
        read = READINGS.get(request.path_params["name"])
        if read is None:
            raise Refused(404, "request")
        return _json(await read(session, await _body(request)))

    async def act(self, request: Request) -> Response:
        session = self._session(request)
        body = await _body(request)
        if self._options.read_only and not body.get("preview"):
            raise Refused(403, "read_only")
        return _json(await run_act(session, body))

    async def ask_export(self, request: Request) -> Response:
        """Keep what is to be exported: a browser loads a file with GET, which cannot bring the token along."""
        session = self._session(request)
        body = await _body(request)
        name_in(body, "stream")
        while len(session.exports) >= _MOST_EXPORTS:
            session.exports.pop(next(iter(session.exports)))
        ticket = token_urlsafe(32)
        session.exports[ticket] = body
        return _json({"path": f"/export/{ticket}"})

    async def export(self, request: Request) -> Response:
        session = self.sessions.find(request.cookies.get(COOKIE))
        body = None if session is None else session.exports.pop(request.path_params["ticket"], None)
        if session is None or body is None:
            raise Refused(404, "request")
        batches = export_entries(session, body)
        first = await anext(batches)  # what is refused is refused before the file begins

        async def lines() -> AsyncIterator[bytes]:
            yield _lines_of(first)
            async for batch in batches:
                session.seen = monotonic()
                yield _lines_of(batch)

        headers = {"Cache-Control": "no-store", "Content-Disposition": 'attachment; filename="entries.ndjson"'}
        return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)

    async def tail(self, request: Request) -> Response:
        session = self._session(request)
        body = await _body(request)
        if session.tails >= _MOST_TAILS:
            raise Refused(429, "too_many_tails")

        async def lines() -> AsyncIterator[bytes]:
            session.tails += 1
            try:
                async for batch in follow(session, body):
                    session.seen = monotonic()
                    yield to_json(batch) + b"\n"
            finally:
                session.tails -= 1

        return StreamingResponse(lines(), media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})
