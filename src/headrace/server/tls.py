"""TLS: the port that speaks it, and its certificates, which can be replaced while the server runs.

    tls-port           on the addresses of `bind`; 0: none
    tls-cert-file      the server's certificate, with those that it needs to be believed; tls-key-file: its key
    tls-ca-cert-file   the authorities that sign clients' certificates, or tls-ca-cert-dir
    tls-auth-clients   whether clients need one: yes, no, or only a good one where they have one (optional)

A change is tried before it takes effect: if the certificate cannot be used, the one before stays. Existing connections
keep the certificate that they began with. The listening socket stays open all the time, so that no client that comes
during a change is turned away: each change accepts on a duplicate of it.

Connections in their handshake have descriptors and are no clients yet. They are counted, the server says whether there
is room for one more, and each has ten seconds.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.engine.configuration.config import Config
from headrace.engine.configuration.settings import SettingRefused
from headrace.server.accepting import Acceptor
from headrace.server.listeners import CannotListen, open_tcp
from headrace.server.log import Log

SETTINGS: Final = (
    "tls-port",
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-prefer-server-ciphers",
    "tls-dh-params-file",
)

_HANDSHAKE_S: Final = 10  # a client that takes longer is turned away
_VERSIONS: Final = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_USUAL_VERSIONS: Final = ("tlsv1.2", "tlsv1.3")
_VERIFICATION: Final = {"yes": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "no": ssl.CERT_NONE}


class BadTLS(HeadraceError, ValueError):
    """Settings with which there can be no TLS; the text is one sentence for a person."""


def make_client_context(config: Config) -> ssl.SSLContext:
    """Make the context for a connection to a master: as in Redis its certificate counts, not its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _choose_protocols(context, config)
    client = "tls-client-" if config["tls-client-cert-file"] else "tls-"
    if config[f"{client}cert-file"]:
        _load_certificate(context, config, client)
    _load_authorities(context, config)
    return context


def make_context(config: Config) -> ssl.SSLContext:
    """Make the context for the event loop from the settings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _choose_protocols(context, config)
    if config["tls-prefer-server-ciphers"]:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if config["tls-dh-params-file"]:
        try:
            context.load_dh_params(config["tls-dh-params-file"])
        except (ssl.SSLError, OSError):
            raise BadTLS(f"The file {config['tls-dh-params-file']} of tls-dh-params-file cannot be read.") from None
    _load_certificate(context, config, "tls-")
    context.verify_mode = _VERIFICATION[config["tls-auth-clients"]]
    if context.verify_mode != ssl.CERT_NONE:
        _load_authorities(context, config)
    return context


def _choose_protocols(context: ssl.SSLContext, config: Config) -> None:
    versions = [word.lower() for word in config["tls-protocols"]] or list(_USUAL_VERSIONS)
    unknown = [version for version in versions if version not in _VERSIONS]
    if unknown:
        raise BadTLS(f"tls-protocols knows TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3, but not '{unknown[0]}'.")
    context.minimum_version = min(_VERSIONS[version] for version in versions)
    context.maximum_version = max(_VERSIONS[version] for version in versions)
    try:
        if config["tls-ciphers"]:
            context.set_ciphers(config["tls-ciphers"])
    except ssl.SSLError:
        raise BadTLS(f"None of the ciphers of tls-ciphers, '{config['tls-ciphers']}', can be used.") from None


def _load_certificate(context: ssl.SSLContext, config: Config, settings: str) -> None:
    """Load the certificate that the settings with this prefix name."""
    certificate, key = config[f"{settings}cert-file"], config[f"{settings}key-file"]
    for name, path in ((f"{settings}cert-file", certificate), (f"{settings}key-file", key)):
        if not path:
            raise BadTLS(f"TLS needs a certificate and its key: {name} is not set.")
        if not Path(path).is_file():
            raise BadTLS(f"The file {path} of {name} does not exist.")
    try:
        context.load_cert_chain(certificate, key, password=lambda: config[f"{settings}key-file-pass"])
    except (ssl.SSLError, OSError, ValueError):
        raise BadTLS(
            f"The certificate {certificate} and the key {key} cannot be read, or do not belong together; or the key "
            f"has a password, which {settings}key-file-pass would tell."
        ) from None


def _load_authorities(context: ssl.SSLContext, config: Config) -> None:
    file, directory = config["tls-ca-cert-file"], config["tls-ca-cert-dir"]
    if not file and not directory:
        raise BadTLS(
            "To know whose certificates to believe, TLS needs tls-ca-cert-file or tls-ca-cert-dir; where clients need "
            "none, say tls-auth-clients no."
        )
    try:
        context.load_verify_locations(file or None, directory or None)
    except (ssl.SSLError, OSError):
        raise BadTLS(f"The certificates of authorities in {file or directory} cannot be read.") from None


class TlsPort:
    """The listeners of `tls-port`; `make_connection` gives the event loop a protocol for each client."""

    def __init__(
        self,
        config: Config,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        make_connection: Callable[[], Any],
        has_room: Callable[[], bool],
    ) -> None:
        self._config = config
        self._log = log
        self._loop = loop
        self._make_connection = make_connection
        self._has_room = has_room
        self._acceptor = Acceptor(loop, log, self._take)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []
        self._accepting: list[socket.socket] = []
        self._bound: tuple[tuple[str, ...], int] = ((), 0)
        self._context: ssl.SSLContext | None = None
        self._running = False
        for name in (*SETTINGS, "bind"):
            config.watch(name, self._changed)

    @property
    def is_open(self) -> bool:
        """Whether there is such a port."""
        return bool(self._listeners)

    @property
    def handshakes(self) -> int:
        """How many connections are in their handshake."""
        return len(self._handshakes)

    def listen(self) -> None:
        """Open the sockets that the configuration asks for."""
        self._prepare()

    def accept(self) -> None:
        """Begin to take connections."""
        self._running = True
        self._accept()

    def close(self) -> None:
        """End listening, and handshakes; connections go on."""
        self._running = False
        for handshake in self._handshakes:
            handshake.cancel()
        self._close_listeners()

    def _changed(self, _value: object) -> None:
        try:
            self._prepare()
        except (BadTLS, CannotListen) as error:
            self._log.warning(str(error))
            raise SettingRefused("Unable to update TLS configuration. Check server logs.") from None
        finally:
            if self._running:
                self._stop_accepting()
                self._accept()

    def _prepare(self) -> None:
        """Make the context and the sockets anew, or fail and change nothing."""
        wanted = (self._config["bind"], self._config["tls-port"])
        context = make_context(self._config) if wanted[1] else None
        if wanted != self._bound:
            before = self._bound
            if wanted[1] == before[1]:  # the same port cannot be bound twice on an address that stays
                self._close_listeners()
            try:
                opened = self._open(*wanted)
            except CannotListen:
                self._listeners = self._listeners or self._open(*before)
                raise
            self._close_listeners()
            self._listeners, self._bound = opened, wanted
        self._context = context

    def _open(self, addresses: tuple[str, ...], port: int) -> list[socket.socket]:
        return open_tcp(addresses, port, self._config["tcp-backlog"]) if port else []

    def _close_listeners(self) -> None:
        self._stop_accepting()
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    def _stop_accepting(self) -> None:
        for listener in self._accepting:
            self._acceptor.remove(listener)
            listener.close()
        self._accepting = []

    def _accept(self) -> None:
        if self._running and not self._accepting:
            self._accepting = [listener.dup() for listener in self._listeners]
            for listener in self._accepting:
                self._acceptor.add(listener)

    def _take(self, opened: socket.socket) -> None:
        """Begin a handshake with a client that has come, as long as there is room; others are turned away."""
        if self._has_room():
            task = self._loop.create_task(self._shake_hands(opened))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
        else:
            opened.close()

    async def _shake_hands(self, opened: socket.socket) -> None:
        try:
            opened.setblocking(False)
            await self._loop.connect_accepted_socket(
                self._make_connection, sock=opened, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except OSError as error:  # ssl.SSLError, ConnectionError and TimeoutError among them
            self._log.debug(f"A TLS handshake failed: {error}")
