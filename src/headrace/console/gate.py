"""The checks that every request passes first, and the headers that every answer carries.

    Host      names this console: a page of another site, whose name leads here (DNS rebinding), does not
    Origin    where a browser says it, is this console
    headers   the content security policy: nothing is loaded from, sent to, or framed by another place

Written as ASGI middleware, because answers that last (live tail) must not be collected first.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


class Gate:
    """See the module."""

    def __init__(self, app: App, hosts: set[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts} | _LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if host_of(host) not in self._hosts:
            await _refuse(send, 421, b"This console does not answer to that host name: start it with --host-name.\n")
        elif origin is not None and origin.partition("://")[2] != host:
            await _refuse(send, 403, b"Another site has sent this request.\n")
        else:
            await self._app(scope, receive, lambda message: send(_with_headers(message)))


def _with_headers(message: Message) -> Message:
    if message["type"] == "http.response.start":
        message["headers"] = [*message.get("headers", ()), *_HEADERS]
    return message


async def _refuse(send: Send, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send(_with_headers({"type": "http.response.start", "status": status, "headers": headers}))
    await send({"type": "http.response.body", "body": text})
