"""Sockets to listen on, as `bind`, `port` and `unixsocket` ask for them.

An address of `bind` is one of

    127.0.0.1        an address, or a name that has some
    *   ::*          every IPv4 address, every IPv6 address
    -::1             the same, but ignored where the machine does not have it

A socket is returned listening, or not at all.
"""

import errno
import os
import shutil
import socket
import stat
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError

_NO_SUCH_FAMILY: Final = {
    errno.EAFNOSUPPORT,
    errno.EPFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ESOCKTNOSUPPORT,
    errno.ENOPROTOOPT,
}
_HINTS: Final = {
    errno.EADDRINUSE: "; another server has this port, choose one with --port",
    errno.EACCES: "; a port below 1024 needs root or CAP_NET_BIND_SERVICE, choose another with --port",
}
_EVERY: Final = {"*": "0.0.0.0", "::*": "::"}  # noqa: S104 — only where the configuration asks for it


class CannotListen(HeadraceError, OSError):
    """An address, port or path that cannot be listened on; the text is one sentence for a person."""


def open_tcp(addresses: tuple[str, ...], port: int, backlog: int) -> list[socket.socket]:
    """Listen on a port of every address, or of none."""
    opened: list[socket.socket] = []
    try:
        for address in addresses:
            opened += _open_address(address.removeprefix("-"), port, backlog, optional=address.startswith("-"))
        if not opened and addresses:
            raise CannotListen(f"None of the addresses to bind, {' '.join(addresses)}, exists on this machine.")
    except BaseException:
        for listener in opened:
            listener.close()
        raise
    return opened


def _open_address(address: str, port: int, backlog: int, *, optional: bool) -> list[socket.socket]:
    shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        found = socket.getaddrinfo(
            _EVERY.get(address, address), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (socket.gaierror, UnicodeError) as error:
        if optional:
            return []
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise CannotListen(f"Cannot listen on {shown}: {reason}.") from None
    opened = []
    for family, kind, protocol, _, where in found:
        try:
            opened.append(_listen(family, kind, protocol, where, backlog))
        except OSError as error:
            if error.errno in _NO_SUCH_FAMILY or (optional and error.errno == errno.EADDRNOTAVAIL):
                continue
            for listener in opened:
                listener.close()
            hint = _HINTS.get(error.errno or 0, "")
            raise CannotListen(f"Cannot listen on {shown}: {os.strerror(error.errno or 0)}{hint}.") from None
    return opened


def _listen(family: int, kind: int, protocol: int, where: Any, backlog: int) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(where)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def open_unix(path: str, permissions: int, backlog: int, group: str = "") -> socket.socket:
    """Listen on a path; a socket that an earlier server left there is replaced, any other file is not."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.lexists(path) and stat.S_ISSOCK(os.lstat(path).st_mode):
            Path(path).unlink()
        listener.bind(path)
        if group:
            shutil.chown(path, group=int(group) if group.isdecimal() else group)
        if permissions:
            Path(path).chmod(permissions)
        listener.listen(backlog)
        listener.setblocking(False)
    except (OSError, LookupError) as error:
        listener.close()
        if isinstance(error, LookupError):
            raise CannotListen(f"The group {group} of unixsocketgroup does not exist.") from None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"Cannot listen on the unix socket {path}: {reason}.") from None
    return listener
