"""CLIENT: connections, seen and steered from a connection."""

from headrace.commands.connection.connection import is_one_word, set_client_name
from headrace.commands.declaration.help import bad_subcommand, reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.blocking.waiting import NOT_UNBLOCKED
from headrace.engine.blocking.waking import release
from headrace.engine.call import Call
from headrace.engine.client import Client, ReplyMode
from headrace.engine.client_line import describe, is_replica
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.pubsub.tracking import Tracked

_PLAIN = Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE
_ADMIN = _PLAIN | Flag.ADMIN

_TYPES = (b"normal", b"slave", b"replica", b"pubsub", b"master")
_ID_TOO_SMALL = b"ERR client-id should be greater than 0"
_INT64_MAX = 2**63 - 1

container("client", since="2.4.0", group="connection", summary="See and steer connections.")


def _switch(call: Call, index: int) -> bool:
    word = call.argv[index].lower()
    if word not in (b"on", b"off"):
        raise CommandError(SYNTAX)
    return word == b"on"


# --- who they are ----------------------------------------------------------------------------------------------


@command("client|id", arity=2, flags=_PLAIN, since="5.0.0", group="connection")
def client_id(call: Call) -> None:
    """Reply the number of this connection; later ones have greater numbers."""
    call.reply.integer(call.client.id)


@command("client|getname", arity=2, flags=_PLAIN, since="2.6.9", group="connection")
def client_getname(call: Call) -> None:
    """Reply the name of this connection; nil where it has none."""
    if call.client.name:
        call.reply.bulk(call.client.name)
    else:
        call.reply.null()


@command("client|setname connection-name", arity=3, flags=_PLAIN, since="2.6.9", group="connection")
def client_setname(call: Call) -> None:
    """Name this connection; the empty name is none."""
    set_client_name(call.client, call.argv[2])
    call.reply.ok()


@command("client|setinfo LIB-NAME libname | LIB-VER libver", arity=4, flags=_PLAIN, since="7.2.0", group="connection")
def client_setinfo(call: Call) -> None:
    """Say which client library this connection belongs to."""
    attribute, value = call.argv[2].lower(), call.argv[3]
    if attribute not in (b"lib-name", b"lib-ver"):
        raise CommandError(b"ERR Unrecognized option '%s'" % quoted(call.argv[2]))
    if not is_one_word(value):
        raise CommandError(b"ERR %s cannot contain spaces, newlines or special characters." % attribute)
    if attribute == b"lib-name":
        call.client.library_name = value
    else:
        call.client.library_version = value
    call.reply.ok()


def _line_of(call: Call, client: Client) -> bytes:
    return describe(
        call.engine, client, call.engine.clocks.steady_now_ms, sum(map(len, call.argv)) if client is call.client else 0
    )


@command("client|info", arity=2, flags=_PLAIN, since="6.2.0", group="connection")
def client_info(call: Call) -> None:
    """Reply the line that CLIENT LIST has for this connection."""
    call.reply.verbatim(_line_of(call, call.client), b"txt")


def _type_of(client: Client) -> bytes:
    if client.is_master:
        return b"master"
    if is_replica(client):
        return b"replica"
    return b"pubsub" if client.subscribed else b"normal"


def _known_type(word: bytes) -> bytes:
    if word.lower() not in _TYPES:
        raise CommandError(b"ERR Unknown client type '%s'" % quoted(word))
    return b"replica" if word.lower() == b"slave" else word.lower()


@command(
    "client|list [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]",
    arity=-2,
    flags=_ADMIN,
    since="2.4.0",
    group="connection",
)
def client_list(call: Call) -> None:
    """Reply a line for each connection: all of them, those of a type, or those with these IDs."""
    clients = list(call.engine.clients.values())
    option = call.argv[2].lower() if call.argc > 2 else b""
    if call.argc == 4 and option == b"type":
        kind = _known_type(call.argv[3])
        clients = [client for client in clients if _type_of(client) == kind]
    elif call.argc > 3 and option == b"id":
        ids = [call.integer(i, b"ERR Invalid client ID") for i in range(3, call.argc)]
        clients = [call.engine.clients[each] for each in ids if each in call.engine.clients]
    elif call.argc != 2:
        raise CommandError(SYNTAX)
    call.reply.verbatim(b"".join(_line_of(call, client) for client in clients), b"txt")


# --- ending and unblocking them --------------------------------------------------------------------------------


@command(
    "client|kill ip:port | [ID client-id] [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [USER username] [ADDR ip:port] "
    "[LADDR ip:port] [SKIPME YES|NO] [MAXAGE seconds]",
    arity=-3,
    flags=_ADMIN,
    since="2.4.0",
    group="connection",
)
def client_kill(call: Call) -> None:
    """Close the connection from an address, or all that pass the filters, and reply how many that were.

    With filters this connection itself is spared, unless SKIPME says no.
    """
    if call.argc == 3:
        if not end_connections(call, [client for client in _clients(call) if client.address == call.argv[2]]):
            raise CommandError(b"ERR No such client")
        call.reply.ok()
        return
    chosen = _Filter(call)
    call.reply.integer(end_connections(call, [client for client in _clients(call) if chosen.passes(client)]))


def _clients(call: Call) -> list[Client]:
    return list(call.engine.clients.values())


class _Filter:
    """Which connections CLIENT KILL means; what is None does not matter."""

    def __init__(self, call: Call) -> None:
        self.id: int | None = None
        self.born_until_ms: int | None = None
        self.type: bytes | None = None
        self.user: bytes | None = None
        self.address: bytes | None = None
        self.local_address: bytes | None = None
        self.spared: Client | None = call.client
        for i in range(2, call.argc, 2):
            if i + 1 == call.argc:
                raise CommandError(SYNTAX)
            self._take(call, i + 1)

    def _take(self, call: Call, at: int) -> None:
        option, value = call.argv[at - 1].lower(), call.argv[at]
        if option == b"id":
            self.id = call.integer(at, _ID_TOO_SMALL)
            if self.id < 1:
                raise CommandError(_ID_TOO_SMALL)
        elif option == b"maxage":
            seconds = call.integer(at, b"ERR maxage is not an integer or out of range")
            if seconds < 1:
                raise CommandError(b"ERR maxage should be greater than 0")
            self.born_until_ms = call.engine.clocks.steady_now_ms - seconds * 1000
        elif option == b"type":
            self.type = _known_type(value)
        elif option == b"addr":
            self.address = value
        elif option == b"laddr":
            self.local_address = value
        elif option == b"user":
            if value not in call.engine.users.by_name:
                raise CommandError(b"ERR No such user '%s'" % quoted(value))
            self.user = value
        elif option == b"skipme" and value.lower() in (b"yes", b"no"):
            self.spared = call.client if value.lower() == b"yes" else None
        else:
            raise CommandError(SYNTAX)

    def passes(self, client: Client) -> bool:
        """Whether a connection is meant."""
        return (
            self.type in (None, _type_of(client))
            and client is not self.spared
            and self.id in (None, client.id)
            and self.user in (None, client.user.name)
            and self.address in (None, client.address)
            and self.local_address in (None, client.local_address)
            and (self.born_until_ms is None or client.created_ms <= self.born_until_ms)
        )


def end_connections(call: Call, clients: list[Client]) -> int:
    """Close connections, the one that asks after its reply; return how many."""
    for client in clients:
        if client is call.client:
            client.closing = True
        else:
            channel = client.channel
            call.engine.disconnect(client)
            channel.close()
    return len(clients)


@command("client|unblock client-id [TIMEOUT|ERROR]", arity=-3, flags=_ADMIN, since="5.0.0", group="connection")
def client_unblock(call: Call) -> None:
    """Let a blocked connection go on, as after its timeout or with an error, and reply 1, or 0 if it is not blocked."""
    error = None
    if call.argc > 4:
        raise bad_subcommand(call)
    if call.argc > 3:
        reason = call.argv[3].lower()
        if reason not in (b"timeout", b"error"):
            raise CommandError(b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        if reason == b"error":
            error = b"UNBLOCKED client unblocked via CLIENT UNBLOCK"
    client = call.engine.clients.get(call.integer(2))
    if client is None or client.wait is None or client.wait.kind in NOT_UNBLOCKED:
        call.reply.integer(0)
        return
    release(call.engine, client, error)
    call.reply.integer(1)


@command("client|pause timeout [WRITE|ALL]", arity=-3, flags=_ADMIN, since="3.0.0", group="connection")
def client_pause(call: Call) -> None:
    """Hold back all commands, or only those that write, for so many milliseconds."""
    writes_only = False
    if call.argc > 4:
        raise bad_subcommand(call)
    if call.argc > 3:
        mode = call.argv[3].lower()
        if mode not in (b"write", b"all"):
            raise CommandError(b"ERR CLIENT PAUSE mode must be WRITE or ALL")
        writes_only = mode == b"write"
    timeout = call.integer(2, b"ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise CommandError(b"ERR timeout is negative")
    if timeout > _INT64_MAX - call.now_ms:
        raise CommandError(b"ERR timeout is out of range")
    call.engine.pauses.begin(call.engine.clocks.steady_now_ms + timeout, writes_only=writes_only)
    call.reply.ok()


@command("client|unpause", arity=2, flags=_ADMIN, since="6.2.0", group="connection")
def client_unpause(call: Call) -> None:
    """Let commands go on that CLIENT PAUSE holds back."""
    call.engine.pauses.end()
    call.reply.ok()


# --- how this one is treated -----------------------------------------------------------------------------------


@command("client|reply ON|OFF|SKIP", arity=3, flags=_PLAIN, since="3.2.0", group="connection")
def client_reply(call: Call) -> None:
    """Send replies to this connection, or send none, or not that of the next command."""
    mode = call.argv[2].lower()
    client = call.client
    if mode == b"on":
        client.reply_mode = ReplyMode.REPLY_ON
        call.reply.ok()
    elif mode == b"off":
        client.reply_mode = ReplyMode.REPLY_OFF
    elif mode != b"skip":
        raise CommandError(SYNTAX)
    elif client.reply_mode != ReplyMode.REPLY_OFF:
        client.reply_mode = ReplyMode.REPLY_SKIP_NEXT


@command("client|no-evict ON|OFF", arity=3, flags=_ADMIN, since="7.0.0", group="connection")
def client_no_evict(call: Call) -> None:
    """Never close this connection to save memory."""
    call.client.no_evict = _switch(call, 2)
    call.reply.ok()


@command("client|no-touch ON|OFF", arity=3, flags=_PLAIN, since="7.2.0", group="connection")
def client_no_touch(call: Call) -> None:
    """Let what this connection reads count as untouched."""
    call.client.no_touch = _switch(call, 2)
    call.reply.ok()


# --- tracking: being told of keys that change --------------------------------------------------------------------


@command(
    "client|tracking ON|OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    arity=-3,
    flags=_PLAIN,
    since="6.0.0",
    group="connection",
)
def client_tracking(call: Call) -> None:
    """Tell this connection, or the one of REDIRECT, when a key that it has read changes, so that it can cache keys.

    With BCAST, of all keys, or those with a PREFIX, whether read or not. OPTIN and OPTOUT let CLIENT CACHING decide
    what is remembered, and NOLOOP leaves out what this connection itself changes.
    """
    wanted = _read_tracking(call)
    if _switch(call, 2):
        call.engine.observers.tracker.enable(call.client, wanted)
    else:
        call.engine.observers.tracker.disable(call.client)
    call.reply.ok()


def _read_tracking(call: Call) -> Tracked:
    wanted = Tracked()
    at = 3
    while at < call.argc:
        option = call.argv[at].lower()
        if option == b"redirect" and at + 1 < call.argc:
            at += 1
            if wanted.redirect:
                raise CommandError(b"ERR A client can only redirect to a single other client")
            wanted.redirect = call.integer(at)
            if wanted.redirect not in call.engine.clients:
                raise CommandError(b"ERR The client ID you want redirect to does not exist")
        elif option == b"prefix" and at + 1 < call.argc:
            at += 1
            wanted.prefixes.append(call.argv[at])
        elif option == b"bcast":
            wanted.broadcast = True
        elif option == b"optin":
            wanted.opt_in = True
        elif option == b"optout":
            wanted.opt_out = True
        elif option == b"noloop":
            wanted.no_loop = True
        else:
            raise CommandError(SYNTAX)
        at += 1
    return wanted


@command("client|caching YES|NO", arity=3, flags=_PLAIN, since="6.0.0", group="connection")
def client_caching(call: Call) -> None:
    """Remember the keys of the next command (OPTIN), or do not (OPTOUT)."""
    tracked = call.engine.observers.tracker.clients.get(call.client)
    if tracked is None:
        raise CommandError(
            b"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
            b"enabled"
        )
    word = call.argv[2].lower()
    if word not in (b"yes", b"no"):
        raise CommandError(SYNTAX)
    if word == b"yes" and not tracked.opt_in:
        raise CommandError(b"ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    if word == b"no" and not tracked.opt_out:
        raise CommandError(b"ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    tracked.caching = True
    call.reply.ok()


@command("client|trackinginfo", arity=2, flags=_PLAIN, since="6.2.0", group="connection")
def client_trackinginfo(call: Call) -> None:
    """Reply how this connection is tracked: flags, who is told instead, and prefixes."""
    tracked = call.engine.observers.tracker.clients.get(call.client)
    flags = [b"off"]
    if tracked is not None:
        given = (
            (b"bcast", tracked.broadcast),
            (b"optin", tracked.opt_in),
            (b"caching-yes", tracked.opt_in and tracked.caching),
            (b"optout", tracked.opt_out),
            (b"caching-no", tracked.opt_out and tracked.caching),
            (b"noloop", tracked.no_loop),
            (b"broken_redirect", tracked.broken),
        )
        flags = [b"on", *(flag for flag, is_given in given if is_given)]
    prefixes = sorted(tracked.prefixes) if tracked is not None else []
    call.reply.map(3)
    call.reply.bulk(b"flags")
    call.reply.set(len(flags))
    for flag in flags:
        call.reply.bulk(flag)
    call.reply.bulk(b"redirect")
    call.reply.integer(tracked.redirect if tracked is not None else -1)
    call.reply.bulk(b"prefixes")
    call.reply.array(len(prefixes))
    for prefix in prefixes:
        call.reply.bulk(prefix)


@command("client|getredir", arity=2, flags=_PLAIN, since="6.0.0", group="connection")
def client_getredir(call: Call) -> None:
    """Reply who is told of changed keys instead: a connection's number, 0 for nobody, or -1 where tracking is off."""
    tracked = call.engine.observers.tracker.clients.get(call.client)
    call.reply.integer(tracked.redirect if tracked is not None else -1)


@command("client|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="5.0.0", group="connection")
def client_help(call: Call) -> None:
    """Reply what CLIENT can do."""
    reply_help(call)
