"""The urls of servers, as text: several in one, and without their passwords.

redis://user:password@host:port/db      one server, or a cluster by any of its nodes; rediss:// for TLS
unix:///path                            one server
sentinel://host:port,host:port/name     the servers that Sentinels watch under a name, see `sentinel`
"""

from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("redis://", "rediss://", "unix://", "sentinel://", "sentinels://")
EXPECTED: Final = "redis://host:port, rediss://host:port, unix:///path or sentinel://host:port,host:port/name"


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
    parts = urlsplit(url)
    if parts.password is None and "password=" not in parts.query:
        return url
    user = f"{parts.username or ''}:***@" if parts.password is not None else ""
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(_without_password(part) for part in parts.query.split("&"))
    return f"{parts.scheme}://{user}{host}{parts.path}" + (f"?{query}" if query else "")


def _without_password(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}=***" if equals and name.endswith("password") else part
