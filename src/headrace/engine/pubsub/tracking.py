"""CLIENT TRACKING: which clients may have cached which keys, and telling them when one changes.

    a client reads a key ─► keys      key ─► { client, … }      told once, and forgotten, when the key changes
    BCAST, PREFIX        ─► prefixes  prefix ─► its clients and the keys that changed, told at the end of a turn

A message is a push of RESP3 or, where a client redirects it to one that listens with RESP2, one of the channel
`__redis__:invalidate`. To the client that made the change it comes behind the reply. Keys count by their name, whatever
the database, as in Redis. Beyond `tracking-table-max-keys`, keys are told of as if they had changed.

While no client is tracked, a command costs one comparison (`Engine.attended`).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.engine.command import Flag
from headrace.engine.errors import CommandError
from headrace.engine.pubsub.exchange import encode

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.command import Command
    from headrace.engine.engine import Engine

CHANNEL: Final = b"__redis__:invalidate"
_RUN_SCRIPTS: Final = (b"eval_ro", b"evalsha_ro", b"fcall_ro")
_NULLS: Final = {2: b"$-1\r\n", 3: b"_\r\n"}


@dataclass
class Tracked:
    """How a client wants to be told of changed keys."""

    redirect: int = 0  # the number of the client that is told instead; 0: itself
    broadcast: bool = False
    opt_in: bool = False
    opt_out: bool = False
    no_loop: bool = False
    caching: bool = False  # CLIENT CACHING was given for the next command
    broken: bool = False  # the client that was to be told instead is gone
    prefixes: list[bytes] = field(default_factory=list)


@dataclass
class _Prefix:
    clients: "dict[Client, None]" = field(default_factory=dict)
    keys: "dict[bytes, Client | None]" = field(default_factory=dict)  # what changed, and the client that changed it


def _name_of(pair: tuple[bytes, _Prefix]) -> bytes:
    return pair[0]


def _array(keys: list[bytes]) -> bytes:
    return b"*%d\r\n%s" % (len(keys), b"".join(b"$%d\r\n%s\r\n" % (len(key), key) for key in keys))


class Tracker:
    """All clients that are tracked, and what they may have cached."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.clients: dict[Client, Tracked] = {}
        self.current: Client | None = None  # the client of the request that runs
        self.keys: dict[bytes, dict[Client, None]] = {}
        self._prefixes: dict[bytes, _Prefix] = {}
        self._changed = False

    # --- coming and going ------------------------------------------------------------------------------------------

    def enable(self, client: "Client", wanted: Tracked) -> None:
        """Track a client, or change how it is tracked; refuses options that do not go together."""
        former = self.clients.get(client)
        if wanted.prefixes and not wanted.broadcast:
            raise CommandError(b"ERR PREFIX option requires BCAST mode to be enabled")
        if former is not None and former.broadcast != wanted.broadcast:
            raise CommandError(
                b"ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then "
                b"re-enabling it with a different mode."
            )
        if wanted.broadcast and (wanted.opt_in or wanted.opt_out):
            raise CommandError(b"ERR OPTIN and OPTOUT are not compatible with BCAST")
        if wanted.opt_in and wanted.opt_out:
            raise CommandError(b"ERR You can't specify both OPTIN mode and OPTOUT mode")
        if former is not None and ((wanted.opt_in and former.opt_out) or (wanted.opt_out and former.opt_in)):
            raise CommandError(
                b"ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then "
                b"re-enabling it with a different mode."
            )
        known = former.prefixes if former is not None else []
        if wanted.broadcast:
            _refuse_overlaps(known, wanted.prefixes)
            for prefix in wanted.prefixes or [b""]:
                self._prefixes.setdefault(prefix, _Prefix()).clients[client] = None
            wanted.prefixes = list(dict.fromkeys([*known, *(wanted.prefixes or [b""])]))
        if former is not None:
            wanted.caching = former.caching
        self.clients[client] = wanted
        self._engine.observers.present = True

    def disable(self, client: "Client") -> None:
        """Track a client no more; what it has cached is forgotten as its keys change."""
        tracked = self.clients.pop(client, None)
        for prefix in tracked.prefixes if tracked is not None else ():
            clients = self._prefixes[prefix].clients
            clients.pop(client, None)
            if not clients:
                del self._prefixes[prefix]
        if not self.clients:
            self.keys.clear()

    # --- remembering -----------------------------------------------------------------------------------------------

    def remember(self, client: "Client", command: "Command", argv: list[bytes]) -> None:
        """Note that a client, or a script of it, has read the keys of a command."""
        caller = self._engine.clients.get(client.id)
        tracked = self.clients.get(caller) if caller is not None else None
        if caller is None or tracked is None or tracked.broadcast:
            return
        if (tracked.opt_in and not tracked.caching) or (tracked.opt_out and tracked.caching):
            return
        if command.flags & Flag.PUBSUB or command.name in _RUN_SCRIPTS:
            return
        for key in command.keys_in(argv):
            self.keys.setdefault(key, {})[caller] = None

    def end_command(self, client: "Client") -> None:
        """Forget what CLIENT CACHING said, once the command or transaction behind it is over."""
        tracked = self.clients.get(client)
        if tracked is not None and client.queue is None and not client.last_command.startswith(b"client"):
            tracked.caching = False

    # --- telling ---------------------------------------------------------------------------------------------------

    def invalidate(self, key: bytes) -> None:
        """Tell the clients that may have cached a key that it has changed."""
        for prefix, each in self._prefixes.items():
            if key.startswith(prefix):
                each.keys[key] = self.current
                self._changed = True
        for client in self.keys.pop(key, ()):
            tracked = self.clients.get(client)
            if tracked is None or tracked.broadcast or (tracked.no_loop and client is self.current):
                continue
            self._send(client, tracked, _array([key]))

    def invalidate_all(self) -> None:
        """Tell everybody that no key is left."""
        for client, tracked in self.clients.items():
            self._send(client, tracked, _NULLS[client.reply.protocol])
        self.keys.clear()

    def broadcast(self) -> None:
        """Tell the clients that follow prefixes what changed since the last time."""
        if not self._changed:
            return
        self._changed = False
        for _, each in sorted(self._prefixes.items(), key=_name_of):
            changed, each.keys = each.keys, {}
            for client in each.clients if changed else ():
                tracked = self.clients[client]
                keys = sorted(key for key, by in changed.items() if not (tracked.no_loop and by is client))
                if keys:
                    self._send(client, tracked, _array(keys))

    def limit(self, most: int) -> None:
        """Remember at most so many keys; 0 is any number. Clients that may have cached others are told to drop them."""
        while most and len(self.keys) > most:
            key = next(iter(self.keys))
            for client in self.keys.pop(key):
                tracked = self.clients.get(client)
                if tracked is not None:
                    self._send(client, tracked, _array([key]))

    def _send(self, client: "Client", tracked: Tracked, keys: bytes) -> None:
        engine = self._engine
        target = client
        if tracked.redirect:
            found = engine.clients.get(tracked.redirect)
            if found is None:
                tracked.broken = True
                if client.reply.protocol == 3:
                    engine.push(client, b">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n" % tracked.redirect)
                return
            target = found
        if target.reply.protocol == 3:
            engine.push(target, b">2\r\n$10\r\ninvalidate\r\n" + keys)
        elif tracked.redirect and target.subscribed:
            engine.push(target, encode(2, b"message", CHANNEL, b"")[: -len(b"$0\r\n\r\n")] + keys)

    # --- figures ---------------------------------------------------------------------------------------------------

    @property
    def items(self) -> int:
        """How many times a client may have cached a key."""
        return sum(map(len, self.keys.values()))

    @property
    def prefixes(self) -> int:
        """How many prefixes are followed."""
        return len(self._prefixes)


def _refuse_overlaps(known: list[bytes], wanted: list[bytes]) -> None:
    for i, prefix in enumerate(wanted):
        for other in known:
            if prefix.startswith(other) or other.startswith(prefix):
                raise CommandError(_overlap(prefix, b"an existing", other))
        for other in wanted[i + 1 :]:
            if prefix.startswith(other) or other.startswith(prefix):
                raise CommandError(_overlap(prefix, b"another provided", other))


def _overlap(prefix: bytes, kind: bytes, other: bytes) -> bytes:
    return b"ERR Prefix '%s' overlaps with %s prefix '%s'. Prefixes for a single client must not overlap." % (
        prefix,
        kind,
        other,
    )
