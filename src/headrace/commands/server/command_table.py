"""COMMAND: the table of commands, as clients and proxies ask for it."""

from typing import Final

from headrace.commands.declaration.client_hints import (
    NOT_KEY,
    key_access,
    key_number,
    key_word,
    store_words,
    tips_of,
    unplaced_keys,
)
from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.syntax import Argument, arguments_of
from headrace.commands.declaration.table import TABLE, command
from headrace.engine.acl.categories import CATEGORIES, categories_of
from headrace.engine.acl.rules import access_words
from headrace.engine.call import Call
from headrace.engine.command import Command, Flag
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.glob import matcher
from headrace.protocol.reply import ReplyWriter

_QUIET = Flag.LOADING | Flag.STALE

# In the order in which Redis lists them.
_FLAG_NAMES: Final = (
    (Flag.WRITE, b"write"),
    (Flag.READ, b"readonly"),
    (Flag.DENY_OOM, b"denyoom"),
    (Flag.ADMIN, b"admin"),
    (Flag.PUBSUB, b"pubsub"),
    (Flag.NO_SCRIPT, b"noscript"),
    (Flag.BLOCKING, b"blocking"),
    (Flag.LOADING, b"loading"),
    (Flag.STALE, b"stale"),
    (Flag.SKIP_MONITOR, b"skip_monitor"),
    (Flag.SKIP_SLOWLOG, b"skip_slowlog"),
    (Flag.FAST, b"fast"),
    (Flag.NO_AUTH, b"no_auth"),
    (Flag.NO_MANDATORY_KEYS, b"no_mandatory_keys"),
    (Flag.NO_MULTI, b"no_multi"),
    (Flag.MOVABLE_KEYS, b"movablekeys"),
    (Flag.ALLOW_BUSY, b"allow_busy"),
)


# --- what the table says of a command --------------------------------------------------------------------------


def find_command(name: bytes) -> Command | None:
    """Find a command by its name, whatever its case; a subcommand is `container|name`."""
    outer, bar, inner = name.lower().partition(b"|")
    found = TABLE.get(outer)
    return found.subcommands.get(inner) if found is not None and bar else found


def flags_of(command: Command) -> list[bytes]:
    """Name the flags of a command, in Redis's order."""
    return [name for flag, name in _FLAG_NAMES if command.flags & flag]


def shown_categories(command: Command) -> list[bytes]:
    """Name the ACL categories of a command, in Redis's order, each with its @."""
    categories = categories_of(command)
    return [b"@" + name.encode() for name in CATEGORIES if name in categories]


def _walk(commands: dict[bytes, Command]) -> list[Command]:
    """List commands, each with its subcommands behind it."""
    found: list[Command] = []
    for each in commands.values():
        found += [each, *_walk(each.subcommands)]
    return found


# --- COMMAND and COMMAND INFO ----------------------------------------------------------------------------------


@command("command", arity=-1, flags=_QUIET, since="2.8.13", group="server")
def command_(call: Call) -> None:
    """Reply what COMMAND INFO says of every command."""
    call.reply.array(len(TABLE))
    for each in TABLE.values():
        _reply_info(call.reply, each)


@command("command|info [command-name ...]", arity=-2, flags=_QUIET, since="2.8.13", group="server")
def command_info(call: Call) -> None:
    """Reply arity, flags, keys, categories, tips and subcommands of commands, or of all; nil for one that is none."""
    if call.argc == 2:
        command_(call)
        return
    call.reply.array(call.argc - 2)
    for name in call.argv[2:]:
        found = find_command(name)
        if found is None:
            call.reply.null()
        else:
            _reply_info(call.reply, found)


def _reply_info(reply: ReplyWriter, command: Command) -> None:
    reply.array(10)
    reply.bulk(command.name)
    reply.integer(command.arity)
    _reply_words(reply, flags_of(command))
    for place in command.keys or (0, 0, 0):
        reply.integer(place)
    _reply_words(reply, shown_categories(command))
    tips = tips_of(command)
    reply.set(len(tips))
    for tip in tips:
        reply.bulk(tip.encode())
    _reply_key_specs(reply, command)
    reply.set(len(command.subcommands))
    for inner in command.subcommands.values():
        _reply_info(reply, inner)


def _reply_words(reply: ReplyWriter, words: list[bytes]) -> None:
    reply.set(len(words))
    for word in words:
        reply.simple(word)


def _reply_key_specs(reply: ReplyWriter, command: Command) -> None:
    """Where keys are found, and how they are treated: one entry for all keys, or one for each and for the rest."""
    unplaced = unplaced_keys(command)
    words_behind = store_words(command)
    every_access = key_access(command)
    accesses = every_access[: 1 if unplaced or words_behind else None]
    word = key_word(command)
    numbered = key_number(command)
    first, last, step = command.keys or (0, 0, 0)
    reply.set(len(accesses) + len(words_behind) + len(unplaced))
    for i, access in enumerate(accesses):
        is_last = i == len(accesses) - 1
        index = first + i * step
        reply.map(3)
        reply.bulk(b"flags")
        _reply_words(reply, [flag.encode() for flag in access])
        if word is not None:
            _reply_spec(reply, b"begin_search", b"keyword", {b"keyword": word[0], b"startfrom": word[1]})
            _reply_spec(reply, b"find_keys", b"range", {b"lastkey": -1, b"keystep": 1, b"limit": 2})
            continue
        if is_last and numbered is not None:
            _reply_spec(reply, b"begin_search", b"index", {b"index": numbered})
            _reply_spec(reply, b"find_keys", b"keynum", {b"keynumidx": 0, b"firstkey": 1, b"keystep": 1})
            continue
        to_last = 0 if not is_last else last - index if last >= 0 else last
        _reply_spec(reply, b"begin_search", b"index", {b"index": index})
        _reply_spec(reply, b"find_keys", b"range", {b"lastkey": to_last, b"keystep": step, b"limit": 0})

    for access, (keyword, start) in zip(every_access[1:], words_behind, strict=False):
        reply.map(3)
        reply.bulk(b"flags")
        _reply_words(reply, [flag.encode() for flag in access])
        _reply_spec(reply, b"begin_search", b"keyword", {b"keyword": keyword, b"startfrom": start})
        _reply_spec(reply, b"find_keys", b"range", {b"lastkey": 0, b"keystep": 1, b"limit": 0})

    for access in unplaced:
        reply.map(3)
        reply.bulk(b"flags")
        _reply_words(reply, [flag.encode() for flag in access])
        _reply_spec(reply, b"begin_search", b"unknown", {})
        _reply_spec(reply, b"find_keys", b"unknown", {})


def _reply_spec(reply: ReplyWriter, part: bytes, kind: bytes, spec: dict[bytes, int | bytes]) -> None:
    reply.bulk(part)
    reply.map(2)
    reply.bulk(b"type")
    reply.bulk(kind)
    reply.bulk(b"spec")
    reply.map(len(spec))
    for name, value in spec.items():
        reply.bulk(name)
        if isinstance(value, int):
            reply.integer(value)
        else:
            reply.bulk(value)


# --- COMMAND DOCS ----------------------------------------------------------------------------------------------


@command("command|docs [command-name ...]", arity=-2, flags=_QUIET, since="7.0.0", group="server")
def command_docs(call: Call) -> None:
    """Reply what commands are for, since when there are, and what arguments they take; of all where none is named."""
    if call.argc == 2:
        documented = list(TABLE.values())
    else:
        documented = [found for found in map(find_command, call.argv[2:]) if found is not None]
    _reply_docs(call.reply, documented)


def _reply_docs(reply: ReplyWriter, commands: list[Command]) -> None:
    reply.map(len(commands))
    for each in commands:
        arguments = arguments_of(each.syntax) if not each.subcommands else ()
        reply.bulk(each.name)
        reply.map(3 + bool(arguments) + bool(each.subcommands))
        _reply_pair(reply, b"summary", each.summary)
        _reply_pair(reply, b"since", each.since)
        _reply_pair(reply, b"group", each.group)
        if arguments:
            reply.bulk(b"arguments")
            _reply_arguments(reply, arguments, _KeyCounter(each))
        if each.subcommands:
            reply.bulk(b"subcommands")
            _reply_docs(reply, list(each.subcommands.values()))


def _reply_pair(reply: ReplyWriter, name: bytes, text: str) -> None:
    reply.bulk(name)
    reply.bulk(text.encode())


class _KeyCounter:
    """Tells for one key argument after the other which key specification it belongs to."""

    def __init__(self, command: Command) -> None:
        self._last = max(len(key_access(command)) - 1, 0)
        self._next = 0

    def next(self) -> int:
        index = min(self._next, self._last)
        self._next += 1
        return index


def _reply_arguments(reply: ReplyWriter, arguments: tuple[Argument, ...], keys: _KeyCounter) -> None:
    reply.array(len(arguments))
    for argument in arguments:
        flags = [
            name
            for name, given in (
                (b"optional", argument.optional),
                (b"multiple", argument.multiple),
                (b"multiple_token", argument.multiple_token),
            )
            if given
        ]
        leaf = not argument.inner
        is_key = argument.kind == "key"
        reply.map(2 + leaf + is_key + (argument.token is not None) + bool(flags) + bool(argument.inner))
        _reply_pair(reply, b"name", argument.name)
        _reply_pair(reply, b"type", argument.kind)
        if leaf:
            _reply_pair(reply, b"display_text", argument.name)
        if is_key:
            reply.bulk(b"key_spec_index")
            reply.integer(keys.next())
        if argument.token is not None:
            _reply_pair(reply, b"token", argument.token)
        if flags:
            reply.bulk(b"flags")
            _reply_words(reply, flags)
        if argument.inner:
            reply.bulk(b"arguments")
            _reply_arguments(reply, argument.inner, keys)


# --- COMMAND COUNT, LIST and the keys of a request -------------------------------------------------------------


@command("command|count", arity=2, flags=_QUIET, since="2.8.13", group="server")
def command_count(call: Call) -> None:
    """Reply how many commands there are, subcommands not counted."""
    call.reply.integer(len(TABLE))


@command(
    "command|list [FILTERBY MODULE module-name | FILTERBY ACLCAT category | FILTERBY PATTERN pattern]",
    arity=-2,
    flags=_QUIET,
    since="7.0.0",
    group="server",
)
def command_list(call: Call) -> None:
    """Reply the names of commands and subcommands: all, those of a category, or those that match a pattern."""
    listed = _walk(TABLE)
    if call.argc > 2:
        if call.argc != 5 or call.argv[2].lower() != b"filterby":
            raise CommandError(SYNTAX)
        kind, wanted = call.argv[3].lower(), call.argv[4]
        if kind == b"module":
            listed = []
        elif kind == b"aclcat":
            listed = [each for each in listed if b"@" + wanted.lower() in shown_categories(each)]
        elif kind == b"pattern":
            listed = [each for each in listed if matcher(wanted, ignore_case=True)(each.name)]
        else:
            raise CommandError(SYNTAX)
    call.reply.array(len(listed))
    for each in listed:
        call.reply.bulk(each.name)


@command("command|getkeys command [arg ...]", arity=-3, flags=_QUIET, since="2.8.13", group="server")
def command_getkeys(call: Call) -> None:
    """Reply the keys that a request names."""
    _, keys = _keys_of_request(call)
    call.reply.array(len(keys))
    for key in keys:
        call.reply.bulk(key)


@command("command|getkeysandflags command [arg ...]", arity=-3, flags=_QUIET, since="7.0.0", group="server")
def command_getkeysandflags(call: Call) -> None:
    """Reply the keys that a request names, each with how it is treated."""
    found, keys = _keys_of_request(call)
    call.reply.array(len(keys))
    for i, key in enumerate(keys):
        call.reply.array(2)
        call.reply.bulk(key)
        _reply_words(call.reply, [flag.encode() for flag in access_words(found, call.argv[2:], i)])


def _keys_of_request(call: Call) -> tuple[Command, list[bytes]]:
    request = call.argv[2:]
    found = TABLE.get(request[0].lower())
    if found is not None and found.subcommands and len(request) > 1:
        found = found.subcommands.get(request[1].lower())
    if found is None:
        raise CommandError(b"ERR Invalid command specified")
    accesses = key_access(found)
    if not accesses or accesses == (NOT_KEY,):
        raise CommandError(b"ERR The command has no key arguments")
    if not found.accepts(len(request)):
        raise CommandError(b"ERR Invalid number of arguments specified for command")
    keys = found.keys_in(request)
    if not keys and not found.flags & Flag.NO_MANDATORY_KEYS:
        raise CommandError(b"ERR Invalid arguments specified for command")
    return found, keys


@command("command|help", arity=2, flags=_QUIET, since="5.0.0", group="server")
def command_help(call: Call) -> None:
    """Reply what COMMAND can do."""
    reply_help(call)
