"""The urls of servers, as text: several in one, and without their passwords.

redis://user:password@host:port/db      one server, or a cluster by any of its nodes; rediss:// for TLS
unix:///path                            one server
sentinel://host:port,host:port/name     the servers that Sentinels watch under a name, see `sentinel`
"""

import re
from typing import Final, NamedTuple

SCHEMES: Final = ("redis://", "rediss://", "unix://", "sentinel://", "sentinels://")
EXPECTED: Final = "redis://host:port, rediss://host:port, unix:///path or sentinel://host:port,host:port/name"

_URL: Final = re.compile(r"(?:([^:/?#]*)://)?(?:([^?#]*)@)?([^/?#]*)([^?#]*)(?:[?]([^#]*))?")


class UrlParts(NamedTuple):
    """The parts of a url as they are written, percent signs and all."""

    scheme: str
    user: str | None  # with the password, if there is one: user:password
    hosts: str  # with their ports
    path: str  # with its slash
    query: str


def take_apart(url: str) -> UrlParts:
    """Cut a url into its parts; what is missing is empty.

    urllib's own function serves for one host; with several it refuses [::1] behind the first, in some versions.
    """
    found = _URL.match(url)
    assert found is not None  # noqa: S101  (every part may be empty)
    scheme, user, hosts, path, query = found.groups()
    return UrlParts(scheme or "", user, hosts, path, query or "")


def split_urls(text: str) -> tuple[str, ...]:
    """Cut a text at the commas between urls; those between the Sentinels of one url stay."""
    urls: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if urls and "://" not in part and is_sentinel(urls[-1]):
            urls[-1] += f",{part}"
        else:
            urls.append(part)
    return tuple(urls)


def is_sentinel(url: str) -> bool:
    """Whether a url names Sentinels, which know where the server is."""
    return url.startswith(("sentinel://", "sentinels://"))


def shown(url: str) -> str:
    """Return a url as messages show it, without its passwords."""
    parts = take_apart(url)
    user = ""
    if parts.user is not None:
        name, colon, _ = parts.user.partition(":")
        user = f"{name}:***@" if colon else f"{name}@"
    query = "&".join(_without_password(part) for part in parts.query.split("&"))
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return f"{scheme}{user}{parts.hosts}{parts.path}" + (f"?{query}" if query else "")


def _without_password(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}=***" if equals and name.endswith("password") else part
