"""How long a login has to wait: a client that fails often is slowed, by its address and not by its connection.

    failures     1 … 8        9      10     11 and more        of one place, each within a minute of the one before
    a login      at once      100    200    400 ms behind the one before it from there

A place that has failed often is asked one password at a time, right or wrong, on however many connections: the answer
tells nothing before its time, and a thousand connections guess no faster than one. A login that would wait for more
than ten seconds is refused and may be tried again. Other places do not notice.

A place is an IPv4 address, the /64 network of an IPv6 address, which is what one machine can have, or the unix socket.
The table holds a bounded number of places; the one that failed the longest ago is forgotten for a new one.
"""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE_FAILURES: Final = 8
FORGOTTEN_MS: Final = 60_000  # after this long without a failure a place is like any other
LONGEST_WAIT_MS: Final = 10_000
MOST_PLACES: Final = 4096

_FIRST_STEP_MS: Final = 100
_MOST_DOUBLINGS: Final = 2
_UNIX_SOCKET: Final = "unix"


@dataclass(slots=True)
class _Address:
    failures: int = 0
    failed_ms: int = 0
    free_ms: int = 0  # when the next login may be tried


def place_of(address: bytes) -> str:
    """Say where a client comes from, by its address as CLIENT LIST shows it."""
    host = address.rpartition(b":")[0].decode("ascii", "replace").strip("[]").partition("%")[0]
    try:
        parsed = ip_address(host)
    except ValueError:
        return _UNIX_SOCKET
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"
    return host


class Logins:
    """The places from which logins failed of late."""

    def __init__(self) -> None:
        self._places: dict[str, _Address] = {}  # the one that failed last is the last

    def __len__(self) -> int:
        """How many places are remembered."""
        return len(self._places)

    def delay_ms(self, address: bytes, now_ms: int) -> int | None:
        """Queue a login; return how long it has to wait, or None where that would be too long."""
        name = place_of(address)
        place = self._places.get(name)
        if place is None:
            return 0
        if now_ms - place.failed_ms > FORGOTTEN_MS:
            del self._places[name]
            return 0
        if place.failures < FREE_FAILURES:
            return 0
        step_ms = _FIRST_STEP_MS << min(place.failures - FREE_FAILURES, _MOST_DOUBLINGS)
        turn_ms = max(place.free_ms, now_ms) + step_ms
        if turn_ms - now_ms > LONGEST_WAIT_MS:
            return None
        place.free_ms = turn_ms
        return turn_ms - now_ms

    def note_failure(self, address: bytes, now_ms: int) -> None:
        """Remember that a login from a place failed."""
        name = place_of(address)
        place = self._places.pop(name, None)
        if place is None or now_ms - place.failed_ms > FORGOTTEN_MS:
            place = _Address()
        place.failures += 1
        place.failed_ms = now_ms
        self._places[name] = place
        if len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]
