"""A start of the console: where it listens, who may come, and uvicorn.

Bound to loopback, it serves this machine. Bound elsewhere, it refuses to log anybody in where the server asks for no
password, because the console would then give the server to every machine that reaches it.
"""

import ctypes
import ipaddress
import os
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from headrace.console.app import ConsoleOptions, make_app
from headrace.console.errors import CannotShow
from headrace.console.link import place_of
from headrace.console.prompt_protocol import PromptProtocol

_DEATH_SIGNAL: Final = 1  # of prctl: PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Place:
    """Where the console listens, and under which names."""

    bind: str = "127.0.0.1"
    port: int = 8080
    host_names: tuple[str, ...] = ()
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _end_with_parent() -> None:
    """Let the system end this process when the server ends that started it, however that ends."""
    parent = os.environ.pop("HEADRACE_CONSOLE_PARENT", "")
    if parent:
        set_control = getattr(ctypes.CDLL(None), "prctl", None)
        if set_control is not None:
            set_control(_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has ended already
            raise SystemExit(0)


def run_console(url: str, place: Place, *, read_only: bool) -> None:
    """Serve until a signal ends it."""
    _end_with_parent()
    server_place = place_of(url)
    listener = _listen(place)
    port = listener.getsockname()[1]
    options = ConsoleOptions(
        url=url,
        read_only=read_only,
        needs_password=not is_loopback(place.bind),
        secure=place.tls_cert_file is not None,
        hosts=_names(place),
    )
    config = uvicorn.Config(
        make_app(options),
        http=PromptProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=200,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        ssl_certfile=place.tls_cert_file,
        ssl_keyfile=place.tls_key_file,
    )
    scheme = "https" if options.secure else "http"
    shown = f"[{place.bind}]" if ":" in place.bind else place.bind
    mode = ", read-only" if read_only else ""
    print(f"The console of {server_place} is at {scheme}://{shown}:{port}{mode}", flush=True)  # noqa: T201
    uvicorn.Server(config).run(sockets=[listener])


def _names(place: Place) -> set[str]:
    """Return the names under which it answers: its address, the machine's name where it is bound to all, and others."""
    names: set[str] = {place.bind, *place.host_names}
    if place.bind in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        names |= {socket.gethostname(), socket.getfqdn(), *_own_addresses()}
    return names


def _own_addresses() -> Iterable[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return ()


def _listen(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((place.bind, place.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotShow(
            f"The console cannot listen on {place.bind}:{place.port} ({error.strerror}): choose another with --port."
        ) from None
    return listener
