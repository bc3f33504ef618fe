"""Which server this is, and what of the console it can answer."""

from typing import Any

from headrace.console.errors import Refused
from headrace.console.link import ServerLink, info_of


async def read_product(link: ServerLink) -> dict[str, Any]:
    """Ask a server what product it is; a user without permission for INFO gets what is known without it."""
    await link.ask("PING")
    product: dict[str, Any] = {"name": "", "version": "", "headrace": False, "xnack": False}
    try:
        info = info_of(await link.ask("INFO", "server"))
    except Refused as refusal:
        if refusal.code != "permission":
            raise
        info = {}
    if "headrace_version" in info:
        product |= {"name": "Headrace", "version": info["headrace_version"], "headrace": True}
    elif info.get("server_name") == "valkey":
        product |= {"name": "Valkey", "version": info.get("valkey_version", "")}
    elif info:
        product |= {"name": "Redis", "version": info.get("redis_version", "")}
    try:
        product["xnack"] = bool((await link.ask("COMMAND", "INFO", "XNACK"))[0])
    except (Refused, IndexError):
        product["xnack"] = product["headrace"]
    return product
