"""ACL: users, seen and changed. What rules mean is told in `headrace.engine.acl.rules`."""

import os
from secrets import token_hex
from typing import Final

from headrace.commands.connection.client import end_connections
from headrace.commands.declaration.help import bad_subcommand, reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.acl.categories import CATEGORIES, in_category
from headrace.engine.acl.log import REASONS, Entry
from headrace.engine.acl.rules import BadRule, Selector
from headrace.engine.acl.users import DEFAULT, BadUsers, explain
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError, quoted, wrong_arity

_PLAIN: Final = Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE
_ADMIN: Final = _PLAIN | Flag.ADMIN

_SHOWN_ENTRIES: Final = 10
_USUAL_BITS: Final = 256
_MOST_BITS: Final = 4096
_BAD_BITS: Final = (
    b"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
)
_NO_FILE: Final = (
    b"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    b"command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    b"users in the Redis configuration."
)

container("acl", since="6.0.0", group="server", summary="See and change users.")


# --- users -----------------------------------------------------------------------------------------------------


@command("acl|setuser username [rule [rule ...]]", arity=-3, flags=_ADMIN, since="6.0.0", group="server")
def acl_setuser(call: Call) -> None:
    """Make or change a user by rules, which are applied in order, all of them or, where one is refused, none."""
    name, rules = call.argv[2], call.argv[3:]
    for at, rule in enumerate(rules, 3):
        if rule[:1] in (b">", b"<", b"#", b"!"):
            call.argv[at] = b"(redacted)"  # the slow log must not show it
    if b" " in name or b"\0" in name:
        raise CommandError(b"ERR Usernames can't contain spaces or null characters")
    try:
        ended = call.engine.users.set_user(name, rules)
    except BadRule as bad:
        raise CommandError(b"ERR " + quoted(bad.text)) from None
    call.reply.ok()
    end_connections(call, ended)


@command("acl|deluser username [username ...]", arity=-3, flags=_ADMIN, since="6.0.0", group="server")
def acl_deluser(call: Call) -> None:
    """Remove users, end their connections, and reply how many there were; the default user stays."""
    users = call.engine.users
    if DEFAULT in call.argv[2:]:
        raise CommandError(b"ERR The 'default' user cannot be removed")
    names = [name for name in dict.fromkeys(call.argv[2:]) if name in users.by_name]
    call.reply.integer(len(names))
    for name in names:
        end_connections(call, users.delete(name))


@command("acl|getuser username", arity=3, flags=_ADMIN, since="6.0.0", group="server")
def acl_getuser(call: Call) -> None:
    """Reply the flags, the passwords as SHA-256, and the rules of a user; nil where there is none."""
    user = call.engine.users.by_name.get(call.argv[2])
    if user is None:
        call.reply.null()
        return
    reply = call.reply
    root, *others = user.selectors
    reply.map(6)
    reply.bulk(b"flags")
    reply.set(len(user.flags))
    for flag in user.flags:
        reply.bulk(flag)
    reply.bulk(b"passwords")
    _reply_names(call, list(user.passwords))
    _reply_selector(call, root)
    reply.bulk(b"selectors")
    reply.array(len(others))
    for other in others:
        reply.map(3)
        _reply_selector(call, other)


def _reply_selector(call: Call, selector: Selector) -> None:
    for name, value in (
        (b"commands", selector.shown_commands),
        (b"keys", selector.shown_keys),
        (b"channels", selector.shown_channels),
    ):
        call.reply.bulk(name)
        call.reply.bulk(value)


def _reply_names(call: Call, names: list[bytes]) -> None:
    call.reply.array(len(names))
    for name in names:
        call.reply.bulk(name)


@command("acl|list", arity=2, flags=_ADMIN, since="6.0.0", group="server")
def acl_list(call: Call) -> None:
    """Reply every user in a line, as ACL files have it."""
    _reply_names(call, call.engine.users.lines())


@command("acl|users", arity=2, flags=_ADMIN, since="6.0.0", group="server")
def acl_users(call: Call) -> None:
    """Reply the names of all users."""
    _reply_names(call, sorted(call.engine.users.by_name))


@command("acl|whoami", arity=2, flags=_PLAIN, since="6.0.0", group="server")
def acl_whoami(call: Call) -> None:
    """Reply the name of the user that this connection is."""
    call.reply.bulk(call.client.user.name)


# --- what they may do ------------------------------------------------------------------------------------------


@command("acl|cat [category]", arity=-2, flags=_PLAIN, since="6.0.0", group="server")
def acl_cat(call: Call) -> None:
    """Reply the categories of commands, or the commands of one."""
    if call.argc > 3:
        raise bad_subcommand(call)
    if call.argc == 2:
        _reply_names(call, [name.encode() for name in CATEGORIES])
        return
    category = call.argv[2].lower().decode("latin-1")
    if category not in CATEGORIES:
        raise CommandError(b"ERR Unknown category '%s'" % quoted(call.argv[2]))
    _reply_names(call, [each.name for each in in_category(call.engine.commands.table, category)])


@command("acl|dryrun username command [arg [arg ...]]", arity=-4, flags=_ADMIN, since="7.0.0", group="server")
def acl_dryrun(call: Call) -> None:
    """Reply OK where a user may run a command, else why not; nothing is run."""
    user = call.engine.users.by_name.get(call.argv[2])
    request = call.argv[3:]
    if user is None:
        raise CommandError(b"ERR User '%s' not found" % quoted(call.argv[2]))
    found = call.engine.commands.table.get(request[0].lower())
    if found is not None and found.subcommands and len(request) > 1:
        found = found.subcommands.get(request[1].lower())
    if found is None:
        raise CommandError(b"ERR Command '%s' not found" % quoted(request[0]))
    if not found.accepts(len(request)):
        raise wrong_arity(found.name)
    denied = user.denial(found, request)
    if denied is None:
        call.reply.ok()
    else:
        call.reply.bulk(explain(user, denied))


@command("acl|genpass [bits]", arity=-2, flags=_PLAIN, since="6.0.0", group="server")
def acl_genpass(call: Call) -> None:
    """Reply a password that nobody can guess, of 256 bits or as many as asked for, in hexadecimal."""
    if call.argc > 3:
        raise bad_subcommand(call)
    bits = call.integer(2) if call.argc == 3 else _USUAL_BITS
    if not 0 < bits <= _MOST_BITS:
        raise CommandError(_BAD_BITS)
    digits = (bits + 3) // 4
    call.reply.bulk(token_hex(digits)[:digits].encode())


# --- clients that were turned away -------------------------------------------------------------------------------


@command("acl|log [count | RESET]", arity=-2, flags=_ADMIN, since="6.0.0", group="server")
def acl_log(call: Call) -> None:
    """Reply who was turned away lately, the newest first, ten of them or as many as asked for; or forget them."""
    if call.argc > 3:
        raise bad_subcommand(call)
    log = call.engine.users.log
    if call.argc == 3 and call.argv[2].lower() == b"reset":
        log.clear()
        call.reply.ok()
        return
    entries = log.entries[: max(call.integer(2), 0) if call.argc == 3 else _SHOWN_ENTRIES]
    call.reply.array(len(entries))
    for entry in entries:
        _reply_entry(call, entry)


def _reply_entry(call: Call, entry: Entry) -> None:
    reply = call.reply
    reply.map(10)
    reply.bulk(b"count")
    reply.integer(entry.count)
    for name, text in (
        (b"reason", REASONS[entry.reason]),
        (b"context", entry.context),
        (b"object", entry.what),
        (b"username", entry.user),
    ):
        reply.bulk(name)
        reply.bulk(text)
    reply.bulk(b"age-seconds")
    reply.double(max(call.now_ms - entry.updated_ms, 0) / 1000)
    reply.bulk(b"client-info")
    reply.bulk(entry.client)
    for name, number in (
        (b"entry-id", entry.number),
        (b"timestamp-created", entry.created_ms),
        (b"timestamp-last-updated", entry.updated_ms),
    ):
        reply.bulk(name)
        reply.integer(number)


# --- the file --------------------------------------------------------------------------------------------------


def _file(call: Call) -> str:
    path = str(call.engine.config["aclfile"])
    if not path:
        raise CommandError(_NO_FILE)
    return path


@command("acl|load", arity=2, flags=_ADMIN, since="6.0.0", group="server")
def acl_load(call: Call) -> None:
    """Take over the users of the ACL file, all or none; disconnect clients whose user is gone."""
    try:
        ended = call.engine.users.load_file(_file(call))
    except BadUsers as bad:
        raise CommandError(
            b"ERR %s WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            % os.fsencode(str(bad))
        ) from None
    call.reply.ok()
    end_connections(call, ended)


@command("acl|save", arity=2, flags=_ADMIN, since="6.0.0", group="server")
def acl_save(call: Call) -> None:
    """Write all users into the ACL file."""
    try:
        call.engine.users.save_file(_file(call))
    except OSError as error:
        reason = os.fsencode(error.strerror or str(error))
        raise CommandError(b"ERR There was an error trying to save the ACLs: " + reason) from None
    call.reply.ok()


@command("acl|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="6.0.0", group="server")
def acl_help(call: Call) -> None:
    """Reply what ACL can do."""
    reply_help(call)
