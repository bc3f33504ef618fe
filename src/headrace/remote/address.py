"""The meaning of a url: where a server is, and how it is greeted.

    redis://user:password@host:port/db      rediss:// for TLS
    unix:///path?db=0
    sentinel://user:password@host:port,host:port/name/db      sentinels:// for TLS; see clients/sentinel

Options of urls, behind `?`: db, username, password, sentinel_username, sentinel_password, and for TLS ssl_ca_certs,
ssl_certfile, ssl_keyfile, ssl_cert_reqs (required or none), ssl_check_hostname. They have the names of redis-py's.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.api.errors import CannotConnect
from headrace.clients.urls import EXPECTED, SCHEMES, is_sentinel, shown, take_apart

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_OPTIONS: Final = (
    *("db", "username", "password", "sentinel_username", "sentinel_password"),
    *("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"),
)

Place = tuple[str, int] | str  # a host and a port, or the path of a socket


@dataclass(frozen=True)
class Address:
    """See the module."""

    shown: str  # without passwords
    places: tuple[Place, ...]  # of the server, or of its Sentinels
    master: bytes | None  # the name by which Sentinels know the server; None: there are none
    user: tuple[bytes, bytes] | None  # with its password
    sentinel_user: tuple[bytes, bytes] | None
    database: int
    tls: ssl.SSLContext | None


def parse_address(url: str) -> Address:
    """Read a url; CannotConnect says what is wrong with it."""
    if not url.startswith(SCHEMES):
        raise CannotConnect(f"{shown(url)!r} is no url of a server: write {EXPECTED}.")
    parts = take_apart(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise CannotConnect(f"The url {shown(url)} has the option {unknown[0]}: there are {', '.join(_OPTIONS)}.")
    name, _, password = (parts.user or "").partition(":")
    user = _user(options.get("username", unquote(name)), options.get("password", unquote(password)))
    segments = [unquote(segment) for segment in parts.path.split("/")[1:]]
    master = None
    if parts.scheme == "unix":
        places: tuple[Place, ...] = (unquote(parts.hosts + parts.path),)
        segments = []
    elif is_sentinel(url):
        places = tuple(_place(each, _SENTINEL_PORT, url) for each in parts.hosts.split(","))
        if not segments or not segments[0]:
            raise CannotConnect(f"The url {shown(url)} lacks the name of the master: sentinel://host:port/name.")
        master = segments.pop(0).encode()
    else:
        places = (_place(parts.hosts, _PORT, url),)
    database = options.get("db") or next(iter(segments), "") or "0"
    if not database.isdigit():
        raise CannotConnect(f"The url {shown(url)} has the database {database!r}, which is no number.")
    return Address(
        shown=shown(url),
        places=places,
        master=master,
        user=user,
        sentinel_user=_user(options.get("sentinel_username", ""), options.get("sentinel_password", "")),
        database=int(database),
        tls=_tls(options, url) if parts.scheme in ("rediss", "sentinels") else None,
    )


def _place(text: str, port: int, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        return parts.hostname or "localhost", parts.port or port
    except ValueError:
        raise CannotConnect(f"The url {shown(url)} has no place of a server in {text!r}: write host:port.") from None


def _user(name: str, password: str) -> tuple[bytes, bytes] | None:
    return ((name or "default").encode(), password.encode()) if password or name else None


def _tls(options: dict[str, str], url: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    except OSError as error:
        raise CannotConnect(f"The certificates of {shown(url)} cannot be read: {error}.") from None
    reqs = options.get("ssl_cert_reqs", "required")
    if reqs not in ("required", "none"):
        raise CannotConnect(f"ssl_cert_reqs of {shown(url)} is required or none, not {reqs!r}.")
    if options.get("ssl_check_hostname", "yes").lower() in ("no", "false", "0") or reqs == "none":
        context.check_hostname = False
    if reqs == "none":
        context.verify_mode = ssl.CERT_NONE
    return context
