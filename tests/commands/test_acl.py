"""Without permission nothing can be read, written or observed; refusals are logged, and clients that guess wait."""

import pytest

from headrace.commands.all import TABLE
from headrace.commands.declaration.client_hints import key_number
from headrace.engine.acl.logins import FREE_FAILURES
from headrace.engine.acl.rules import Access, access_needed
from headrace.engine.blocking.waking import run_due
from headrace.engine.command import Command, Flag
from support.in_process import InProcess, InProcessClient

EVERY_COMMAND = [each for outer in TABLE.values() for each in (outer, *outer.subcommands.values()) if each.handler]
KEYWORDS = {b"xread": [b"STREAMS"], b"xreadgroup": [b"GROUP", b"g", b"c", b"STREAMS"]}


def request(command: Command, word: bytes) -> list[bytes]:
    """A request of a command whose arguments are all the same word, as far as it lets them."""
    name = command.name.split(b"|")
    if command.name in KEYWORDS:
        return [*name, *KEYWORDS[command.name], word, word]
    if command.subcommands:
        return name
    argv = [*name, *[word] * max(abs(command.arity) - len(name), 0), *([word] if command.arity < 0 else [])]
    number = key_number(command)
    if number is not None:
        argv[number] = b"1"
    return argv


def as_user(engine: InProcess, *rules: str) -> InProcessClient:
    """A client that is a user with these rules and no password."""
    assert engine.run("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules) == b"+OK\r\n"
    client = engine.connect()
    assert client.run("AUTH", "u", "x") == b"+OK\r\n"
    return client


@pytest.fixture
def engine() -> InProcess:
    return InProcess()


# --- nothing without permission --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name.decode())
def test_who_may_do_nothing_can_only_authenticate(engine: InProcess, command: Command) -> None:
    engine.run("SET", "k", "v")
    engine.take_effects()
    client = as_user(engine)
    reply = client.run(*request(command, b"k"))
    if command.flags & Flag.NO_AUTH:
        assert not reply.startswith(b"-NOPERM")
    elif command.flags & Flag.PROTECTED:
        assert reply.startswith(b"-ERR DEBUG command not allowed")
    else:
        refusal = b"NOPERM User u has no permissions to run the '%s' command\r\n" % command.name
        assert (
            reply == (b"-EXECABORT Transaction discarded because of: " if command.name == b"exec" else b"-") + refusal
        )
    assert engine.take_effects() == []


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name.decode())
def test_before_authentication_nothing_is_answered(engine: InProcess, command: Command) -> None:
    engine.run("CONFIG", "SET", "requirepass", "secret")
    reply = engine.connect().run(*request(command, b"k"))
    if not command.flags & (Flag.NO_AUTH | Flag.PROTECTED):
        assert reply.endswith(b"NOAUTH Authentication required.\r\n")
    assert engine.take_effects() == []


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name.decode())
def test_who_is_limited_to_a_pattern_cannot_touch_another_key_or_channel(engine: InProcess, command: Command) -> None:
    engine.run("SET", "other", "v")
    engine.take_effects()
    client = as_user(engine, "+@all", "~mine*", "&mine*")
    reply = client.run(*request(command, b"other"))
    if command.access and command.access[0] != ("not_key",):
        assert reply == b"-NOPERM No permissions to access a key\r\n"
    elif command.name in (b"publish", b"spublish", b"subscribe", b"ssubscribe", b"psubscribe"):
        assert reply == b"-NOPERM No permissions to access a channel\r\n"
    else:
        assert not reply.startswith(b"-NOPERM")


FIRST_KEY_ONLY_READ = (b"bitfield", b"copy", b"georadius", b"georadiusbymember", b"sort", b"xreadgroup")


def test_every_command_with_keys_says_what_it_does_to_them() -> None:
    for command in EVERY_COMMAND:
        if command.access and command.access[0] != ("not_key",):
            needed = access_needed(command, request(command, b"k"), 0)
            if command.flags & Flag.WRITE and command.name not in FIRST_KEY_ONLY_READ:
                assert needed & Access.WRITE, command.name


# --- reading and writing ---------------------------------------------------------------------------------------


def test_patterns_may_be_for_reading_or_for_writing(engine: InProcess) -> None:
    engine.run("SET", "r", "v")
    client = as_user(engine, "+@all", "%R~r", "%W~w")
    assert client.run("GET", "r") == b"$1\r\nv\r\n"
    assert client.run("COPY", "r", "w") == b":1\r\n"
    assert client.run("SET", "w", "x") == b"+OK\r\n"
    for words in (["GET", "w"], ["SET", "r", "x"], ["SET", "w", "x", "GET"], ["COPY", "w", "r"], ["DEL", "w", "r"]):
        assert client.run(*words) == b"-NOPERM No permissions to access a key\r\n", words
    assert client.run("EXISTS", "w") == b":1\r\n"


def test_a_selector_is_another_way_to_be_allowed(engine: InProcess) -> None:
    client = as_user(engine, "+get", "~a", "(+set ~b)", "(+publish &c)")
    assert client.run("GET", "a") == b"$-1\r\n"
    assert client.run("SET", "b", "x") == b"+OK\r\n"
    assert client.run("PUBLISH", "c", "x") == b":0\r\n"
    assert client.run("GET", "b") == b"-NOPERM No permissions to access a key\r\n"
    assert client.run("SET", "a", "x") == b"-NOPERM No permissions to access a key\r\n"
    assert client.run("PUBLISH", "d", "x") == b"-NOPERM No permissions to access a channel\r\n"
    assert client.run("DEL", "a") == b"-NOPERM User u has no permissions to run the 'del' command\r\n"


def test_a_change_holds_at_once_and_for_what_was_queued(engine: InProcess) -> None:
    client = as_user(engine, "+@all", "~*", "&*")
    client.run("MULTI")
    client.run("SET", "k", "v")
    client.run("PING")
    engine.run("ACL", "SETUSER", "u", "-set")
    reply = client.run("EXEC")
    assert reply.startswith(b"*2\r\n-NOPERM ACLs rules changed between the moment")
    assert reply.endswith(b"reason: no permission to execute the command or subcommand\r\n+PONG\r\n")
    assert client.run("SET", "k", "v").startswith(b"-NOPERM")
    engine.run("ACL", "SETUSER", "u", "+@all")
    assert client.run("SET", "k", "v") == b"+OK\r\n"


def test_a_waiting_reader_that_loses_its_permission_gets_nothing(engine: InProcess) -> None:
    client = as_user(engine, "+@all", "~*")
    client.run("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
    engine.run("ACL", "SETUSER", "u", "resetkeys")
    engine.run("XADD", "s", "1-1", "secret", "v")
    assert client.reply() == b"-NOPERM No permissions to access a key\r\n"


def test_printed_rules_are_those_that_were_given(engine: InProcess) -> None:
    for given, shown in (
        ("+get -get +@read", "-@all -get +@read"),
        ("+@all -@dangerous +keys", "+@all -@dangerous +keys"),
        ("+config|get +config", "-@all +config"),
        ("+CONFIG|GET +select|0", "-@all +config|get +select|0"),
        ("+get nocommands +SET", "-@all +set"),
    ):
        engine.run("ACL", "SETUSER", "u", "reset", *given.split())
        assert shown.encode() in engine.run("ACL", "GETUSER", "u"), given


# --- connections -----------------------------------------------------------------------------------------------


def test_who_is_removed_is_disconnected(engine: InProcess) -> None:
    client = as_user(engine, "+@all")
    assert engine.run("ACL", "DELUSER", "u", "nobody") == b":1\r\n"
    assert client.client.id not in engine.engine.clients


def test_who_may_no_longer_listen_is_disconnected(engine: InProcess) -> None:
    client = as_user(engine, "+@all", "&a", "&p*")
    client.run("SUBSCRIBE", "a", "pp")
    client.run("PSUBSCRIBE", "p*")
    engine.run("ACL", "SETUSER", "u", "+get")
    assert client.client.id in engine.engine.clients
    engine.run("ACL", "SETUSER", "u", "resetchannels", "&a", "&pp")
    assert client.client.id not in engine.engine.clients
    assert engine.run("PUBLISH", "a", "x") == b":0\r\n"


def test_requirepass_is_the_password_of_the_default_user(engine: InProcess) -> None:
    known = engine.connect()
    engine.run("CONFIG", "SET", "requirepass", "secret")
    assert known.run("PING") == b"+PONG\r\n"
    stranger = engine.connect()
    assert stranger.run("PING") == b"-NOAUTH Authentication required.\r\n"
    assert stranger.run("AUTH", "secret") == b"+OK\r\n"
    other = engine.connect()
    engine.run("CONFIG", "SET", "requirepass", "")
    assert other.run("PING") == b"+PONG\r\n"
    assert b"nopass" in engine.run("ACL", "GETUSER", "default")


def test_a_default_user_that_is_off_lets_nobody_in_without_a_name(engine: InProcess) -> None:
    engine.run("ACL", "SETUSER", "admin", "on", ">secret", "~*", "&*", "+@all")
    engine.run("ACL", "SETUSER", "default", "off")
    client = engine.connect()
    assert client.run("GET", "k") == b"-NOAUTH Authentication required.\r\n"
    assert client.run("HELLO", 3, "AUTH", "admin", "secret").startswith(b"%7\r\n")
    assert client.run("ACL", "WHOAMI") == b"$5\r\nadmin\r\n"
    assert client.run("RESET") == b"+RESET\r\n"
    assert client.run("ACL", "WHOAMI") == b"-NOAUTH Authentication required.\r\n"


# --- guessing --------------------------------------------------------------------------------------------------


def test_who_logs_in_from_where_many_have_failed_waits_right_or_wrong(engine: InProcess) -> None:
    engine.run("ACL", "SETUSER", "u", "on", ">secret", "+@all")
    now_ms = 1_000_000
    engine.set_clock(now_ms)
    wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    for _ in range(FREE_FAILURES):
        assert engine.connect().run("AUTH", "u", "1") == wrong
    waiting = [engine.connect() for _ in range(4)]
    for client, password in zip(waiting, ("2", "secret", "3", "secret"), strict=True):
        assert client.run("AUTH", "u", password) == b""
        assert client.waits
    assert engine.run("CLIENT", "UNBLOCK", waiting[0].client.id) == b":0\r\n"
    assert engine.run("PING") == b"+PONG\r\n"
    for client, reply in zip(waiting, (wrong, b"+OK\r\n", wrong, b"+OK\r\n"), strict=True):
        now_ms += 99
        engine.set_clock(now_ms)
        run_due(engine.engine)
        assert client.waits
        now_ms += 1
        engine.set_clock(now_ms)
        run_due(engine.engine)
        assert client.reply() == reply
    assert waiting[1].run("ACL", "WHOAMI") == b"$1\r\nu\r\n"
    hello = engine.connect()
    assert hello.run("HELLO", "3", "AUTH", "u", "secret", "SETNAME", "late") == b""
    engine.set_clock(now_ms + 1000)
    run_due(engine.engine)
    assert hello.reply().startswith(b"%7\r\n")
    assert hello.run("CLIENT", "GETNAME") == b"$4\r\nlate\r\n"
    waiting[1].run("MULTI")
    waiting[1].run("AUTH", "u", "secret")
    assert waiting[1].run("EXEC").startswith(b"*1\r\n-ERR Too many logins have failed from this address")


def test_who_was_turned_away_is_logged(engine: InProcess) -> None:
    engine.set_clock(1_000_000)
    client = as_user(engine, "+get", "+publish", "+multi", "~a", "&a")
    client.run("GET", "b")
    client.run("GET", "b")
    client.run("PUBLISH", "c", "x")
    client.run("CONFIG", "GET", "x")
    client.run("MULTI")
    client.run("GET", "b")
    engine.connect().run("AUTH", "u2", "wrong")
    engine.set_clock(1_002_500)
    log = engine.run("ACL", "LOG")
    assert log.startswith(b"*5\r\n*20\r\n$5\r\ncount\r\n:1\r\n$6\r\nreason\r\n$4\r\nauth\r\n")
    assert b"$6\r\nobject\r\n$4\r\nAUTH\r\n$8\r\nusername\r\n$2\r\nu2\r\n$11\r\nage-seconds\r\n$3\r\n2.5\r\n" in log
    assert b":1\r\n$6\r\nreason\r\n$3\r\nkey\r\n$7\r\ncontext\r\n$5\r\nmulti\r\n$6\r\nobject\r\n$1\r\nb\r\n" in log
    assert b"reason\r\n$7\r\ncommand\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n$6\r\nobject\r\n$10\r\nconfig|get\r\n" in log
    assert b"reason\r\n$7\r\nchannel\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n$6\r\nobject\r\n$1\r\nc\r\n" in log
    assert b":2\r\n$6\r\nreason\r\n$3\r\nkey\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n" in log
    assert b" user=u " in log
    assert b"wrong" not in log
    info = engine.run("INFO", "stats")
    for line in (b"auth:1", b"cmd:1", b"key:3", b"channel:1"):
        assert b"acl_access_denied_" + line + b"\r\n" in info
    engine.run("CONFIG", "SET", "acllog-max-len", 2)
    client.run("DISCARD")
    client.run("SET", "a", "x")
    assert engine.run("ACL", "LOG").startswith(b"*2\r\n")
    assert engine.run("ACL", "LOG", "RESET") == b"+OK\r\n"
    assert engine.run("ACL", "LOG") == b"*0\r\n"


def test_the_log_of_who_was_turned_away_keeps_the_beginning_of_long_names(engine: InProcess) -> None:
    client = as_user(engine, "+get", "+client|setname", "~a")
    client.run("CLIENT", "SETNAME", "n" * 100_000)
    for number in range(200):
        client.run("GET", b"%d" % number + b"k" * 1_000_000)
        client.run("AUTH", b"%d" % number + b"u" * 10_000, "wrong")
    log = engine.run("ACL", "LOG", 1000)
    assert log.startswith(b"*128\r\n")
    assert len(log) < 128 * 5000
    assert b"... (998979 more bytes)" in log


def test_the_slow_log_shows_no_password(engine: InProcess) -> None:
    engine.run("CONFIG", "SET", "slowlog-log-slower-than", 0)
    engine.run("ACL", "SETUSER", "u", "on", ">secret", "<secret", "#" + "a1" * 32)
    engine.run("AUTH", "u", "secret")
    shown = engine.run("SLOWLOG", "GET")
    assert b"secret" not in shown
    assert b"a1a1" not in shown
