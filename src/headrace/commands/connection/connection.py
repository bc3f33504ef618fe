"""Commands of a connection: who it is, which database it uses, and which protocol it speaks."""

from headrace.commands.declaration.table import command
from headrace.engine import REDIS_VERSION
from headrace.engine.acl.rules import Reason
from headrace.engine.blocking.waiting import LOGIN
from headrace.engine.call import Call
from headrace.engine.client import Client, ReplyMode
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, WRONG_PASSWORD, CommandError, quoted, wrong_arity

_HANDSHAKE = Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE | Flag.FAST | Flag.NO_AUTH | Flag.ALLOW_BUSY
_DEFAULT_USER = b"default"
_NO_PASSWORD = (
    b"ERR AUTH <password> called without any password configured for the default user. "
    b"Are you sure your configuration is correct?"
)
_TOO_MANY_FAILURES = b"ERR Too many logins have failed from this address of late. Try again in some seconds."
_HELLO_FIRST = (
    b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
    b"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)
_BAD_NAME = b"ERR Client names cannot contain spaces, newlines or special characters."
_INT_MAX = 2**31 - 1
_VISIBLE = bytes(range(0x21, 0x7F))


# --- echoes ----------------------------------------------------------------------------------------------------


@command("ping [message]", arity=-1, flags=Flag.FAST, since="1.0.0", group="connection")
def ping(call: Call) -> None:
    """Reply PONG, or the message; among messages of channels in RESP2, like one of them."""
    if call.argc > 2:
        raise wrong_arity(b"ping")
    if call.client.subscribed and call.reply.protocol == 2:
        call.reply.array(2)
        call.reply.bulk(b"pong")
        call.reply.bulk(call.argv[1] if call.argc == 2 else b"")
    elif call.argc == 2:
        call.reply.bulk(call.argv[1])
    else:
        call.reply.simple(b"PONG")


@command("echo message", arity=2, flags=Flag.FAST | Flag.LOADING | Flag.STALE, since="1.0.0", group="connection")
def echo(call: Call) -> None:
    """Reply the message."""
    call.reply.bulk(call.argv[1])


# --- state -----------------------------------------------------------------------------------------------------


@command("select index", arity=2, flags=Flag.FAST | Flag.LOADING | Flag.STALE, since="1.0.0", group="connection")
def select(call: Call) -> None:
    """Use another database from now on."""
    index = call.integer(1)
    if not -_INT_MAX - 1 <= index <= _INT_MAX:
        raise CommandError(b"ERR value is out of range, value must between %d and %d" % (-_INT_MAX - 1, _INT_MAX))
    if not 0 <= index < len(call.engine.databases):
        raise CommandError(b"ERR DB index is out of range")
    call.client.db = call.engine.databases[index]
    call.reply.ok()


@command("quit", arity=-1, flags=_HANDSHAKE | Flag.IN_MULTI, since="1.0.0", group="connection")
def quit_(call: Call) -> None:
    """Close the connection once what was replied has left."""
    call.client.closing = True
    call.reply.ok()


@command("reset", arity=1, flags=_HANDSHAKE | Flag.IN_MULTI, since="6.2.0", group="connection")
def reset(call: Call) -> None:
    """Make the connection like a new one: no transaction, nothing watched or listened to, no name, database 0, RESP2.

    It monitors nothing and is told of no keys any more.
    A client that had to authenticate has to do so again.
    """
    client = call.client
    client.discard_transaction()
    call.engine.exchange.leave(client)
    call.engine.observers.remove(client)
    client.db = call.engine.databases[0]
    client.name = b""
    client.no_evict = client.no_touch = False
    call.engine.users.welcome(client)
    client.reply.protocol = 2
    if client.reply_mode == ReplyMode.REPLY_OFF:
        client.reply_mode = ReplyMode.REPLY_ON
    call.reply.simple(b"RESET")


# --- the handshake ---------------------------------------------------------------------------------------------


def set_client_name(client: Client, name: bytes) -> None:
    """Name a connection, or with an empty name, not any more."""
    if not is_one_word(name):
        raise CommandError(_BAD_NAME)
    client.name = name


def is_one_word(text: bytes) -> bool:
    """Whether a text can stand in a line of CLIENT LIST: visible ASCII, no spaces."""
    return not text.translate(None, _VISIBLE)


def _authenticate(call: Call, user: bytes, password: bytes, again: list[bytes]) -> bool:
    """Make the client a user; False where it has to wait for its turn, and then runs its request `again`.

    Whoever logs in from where many have failed waits, right or wrong, and with it all that it asked for behind it.
    """
    client, users, now_ms = call.client, call.engine.users, call.engine.clocks.steady_now_ms
    if not client.retrying:
        delay_ms = users.logins.delay_ms(client.address, now_ms)
        if delay_ms is None or (delay_ms and not call.may_block()):
            users.note(client, Reason.AUTH, call.argv[0], user, call.argv)
            raise CommandError(_TOO_MANY_FAILURES)
        if delay_ms:
            call.block([], LOGIN, delay_ms, False, again)
            return False
    if users.authenticate(client, user, password):
        return True
    users.note(client, Reason.AUTH, call.argv[0], user, call.argv)
    users.logins.note_failure(client.address, now_ms)
    raise CommandError(WRONG_PASSWORD)


def _take_secret(call: Call, index: int) -> bytes:
    """Take an argument that the slow log must not show."""
    secret = call.argv[index]
    call.argv[index] = b"(redacted)"
    return secret


@command("auth [username] password", arity=-2, flags=_HANDSHAKE, since="1.0.0", group="connection")
def auth(call: Call) -> None:
    """Be a user from now on: the one that is named, or the default user, whose password `requirepass` may be."""
    if call.argc > 3:
        raise CommandError(SYNTAX)
    again = list(call.argv)
    user = _take_secret(call, 1) if call.argc == 3 else _DEFAULT_USER
    password = _take_secret(call, call.argc - 1)
    if call.argc == 2 and call.engine.users.default.no_password:
        raise CommandError(_NO_PASSWORD)
    if _authenticate(call, user, password, again):
        call.reply.ok()


@command(
    "hello [protover [AUTH username password] [SETNAME clientname]]",
    arity=-1,
    flags=_HANDSHAKE,
    since="6.0.0",
    group="connection",
)
def hello(call: Call) -> None:
    """Reply what this server is; switch to a version of the protocol, authenticate, and name the connection."""
    client = call.client
    protocol = client.reply.protocol
    name = None
    if call.argc > 1:
        protocol = call.integer(1, b"ERR Protocol version is not an integer or out of range")
        if protocol not in (2, 3):
            raise CommandError(b"NOPROTO unsupported protocol version")
    i = 2
    while i < call.argc:
        option = call.argv[i].lower()
        if option == b"auth" and i + 2 < call.argc:
            again = list(call.argv)
            if not _authenticate(call, _take_secret(call, i + 1), _take_secret(call, i + 2), again):
                return
            i += 3
        elif option == b"setname" and i + 1 < call.argc:
            name = call.argv[i + 1]
            if not is_one_word(name):
                raise CommandError(_BAD_NAME)
            i += 2
        else:
            raise CommandError(b"ERR Syntax error in HELLO option '%s'" % quoted(call.argv[i]))
    if not client.authenticated:
        raise CommandError(_HELLO_FIRST)
    if name is not None:
        set_client_name(client, name)
    client.reply.protocol = protocol
    call.reply.map(7)
    call.reply.bulk(b"server")
    call.reply.bulk(b"redis")
    call.reply.bulk(b"version")
    call.reply.bulk(REDIS_VERSION)
    call.reply.bulk(b"proto")
    call.reply.integer(protocol)
    call.reply.bulk(b"id")
    call.reply.integer(client.id)
    call.reply.bulk(b"mode")
    call.reply.bulk(b"standalone")
    call.reply.bulk(b"role")
    call.reply.bulk(b"replica" if call.engine.is_replica else b"master")
    call.reply.bulk(b"modules")
    call.reply.array(0)
