"""What a user may do: rules, read and printed as redis-server does.

    user alice on >secret ~cache:* %R~log:* &news.* +@read +xadd -keys (+del ~tmp:*)
         │     │  │       └keys  └only to  └channels └commands         └a selector: another way to be allowed
         name  │  password        read
               enabled

A user has a root selector and any number of others; a command is allowed if one selector allows the command, all its
keys and all its channels. Rules are applied in order, later ones win. Passwords are kept as SHA-256.

`User.denial` is asked for each command of a user that may not do everything. Which commands a selector allows is a set
of names, made when a rule is applied; and a user remembers of which commands the arguments need no look.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from headrace.engine.acl.categories import CATEGORIES, in_category
from headrace.engine.command import Command, Flag
from headrace.engine.glob import Matcher, matcher

Table = dict[bytes, Command]

_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_SPACE: Final = re.compile(rb"[ \t\n\v\f\r\0]")

_SYNTAX: Final = b"Syntax error"
_UNKNOWN: Final = b"Unknown command or category name in ACL"
_AFTER_ALL_KEYS: Final = (
    b"Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
    b"Try 'resetkeys' to start with an empty list of patterns"
)
_AFTER_ALL_CHANNELS: Final = (
    b"Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. "
    b"Try 'resetchannels' to start with an empty list of channels"
)
_NO_SUCH_PASSWORD: Final = b"The password you are trying to remove from the user does not exist"
_BAD_HASH: Final = b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
_FIRST_ARGUMENT_OF_SUBCOMMAND: Final = b"Allowing first-arg of a subcommand is not supported"

# How commands name channels: whether as patterns. A client needs no permission to leave a channel.
_CHANNELS: Final[dict[bytes, tuple[slice, bool]]] = {
    b"publish": (slice(1, 2), False),
    b"spublish": (slice(1, 2), False),
    b"subscribe": (slice(1, None), False),
    b"ssubscribe": (slice(1, None), False),
    b"psubscribe": (slice(1, None), True),
}


class BadRule(Exception):
    """A rule that means nothing; `text` says why."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text


class Access(IntFlag):
    """What may be done to a key."""

    READ = 1
    WRITE = 2


class Reason(IntEnum):
    """Why a command is denied. Of two selectors, the one with the greater reason came closer to allowing it."""

    COMMAND = 1
    KEY = 2
    AUTH = 3
    CHANNEL = 4


class Denial(NamedTuple):
    """A command that is not allowed, and which part of it is the reason."""

    reason: Reason
    at: int  # among the keys or channels
    what: bytes  # the command's full name, the key, or the channel


def access_words(command: Command, argv: list[bytes], index: int) -> tuple[str, ...]:
    """Tell how a request treats one of its keys, in the words of COMMAND INFO; of some commands, options decide it."""
    if command.name == b"set":
        shows = any(word.lower() == b"get" for word in argv[3:])
        return ("RW", "access", "update") if shows else ("OW", "update")
    if command.name == b"bitfield":
        writes = any(word.lower() in (b"set", b"incrby") for word in argv[2:])
        return ("RW", "access", "update") if writes else ("RO", "access")
    if command.reading is not None and len(argv) > 2 and argv[2].lower() in command.reading:
        return ("RO", "access")
    words: tuple[str, ...] = command.access[min(index, len(command.access) - 1)]
    return words


def access_needed(command: Command, argv: list[bytes], index: int) -> Access:
    """Tell what a command does to one of its keys: to see its value is reading, to change it is writing."""
    words = access_words(command, argv, index)
    needed = Access(0)
    if "access" in words:
        needed |= Access.READ
    if {"insert", "update", "delete"} & set(words):
        needed |= Access.WRITE
    return needed


def glob(pattern: bytes) -> Matcher:
    """Return what tells whether a key or channel matches; as anywhere but in KEYS, a star does not match nothing."""
    return matcher(pattern) if pattern != b"*" else bool


def _is_prefix(allowed: bytes, pattern: bytes) -> bool:
    """Tell whether a pattern is a plain beginning and a star, and another one begins so, too."""
    plain = allowed[:-1]
    return allowed.endswith(b"*") and not any(sign in plain for sign in b"*?[\\") and pattern.startswith(plain)


@dataclass
class Selector:
    """Commands, keys and channels that go together."""

    commands: set[bytes] = field(default_factory=set)  # full names
    every_command: bool = False  # those to come, too
    spared_none: bool = False  # and none was taken away since
    first_arguments: dict[bytes, list[bytes]] = field(default_factory=dict)
    rules: list[bytes] = field(default_factory=list)  # about commands, behind +@all or -@all
    keys: dict[bytes, Access] = field(default_factory=dict)
    every_key: bool = False
    channels: dict[bytes, None] = field(default_factory=dict)
    every_channel: bool = False

    @property
    def unlimited(self) -> bool:
        """Whether it allows everything."""
        return self.spared_none and self.every_key and self.every_channel

    @property
    def reads_every_key(self) -> bool:
        """Whether it lets every key be read."""
        return self.every_key or bool(self.keys.get(b"*", Access(0)) & Access.READ)

    def copy(self) -> "Selector":
        """Return one that changes on its own."""
        return Selector(
            set(self.commands),
            self.every_command,
            self.spared_none,
            {name: list(words) for name, words in self.first_arguments.items()},
            list(self.rules),
            dict(self.keys),
            self.every_key,
            dict(self.channels),
            self.every_channel,
        )

    # --- asking ------------------------------------------------------------------------------------------------

    def denial(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Say why a command is not allowed, or None."""
        if not self.allows_command(command, argv):
            return Denial(Reason.COMMAND, 0, command.name)
        if not self.every_key and command.access and "not_key" not in command.access[0]:
            for at, key in enumerate(command.keys_in(argv)):
                if not self._allows_key(key, access_needed(command, argv, at)):
                    return Denial(Reason.KEY, at, key)
        if not self.every_channel and command.name in _CHANNELS:
            places, as_patterns = _CHANNELS[command.name]
            for at, channel in enumerate(argv[places]):
                if not self.allows_channel(channel, as_pattern=as_patterns):
                    return Denial(Reason.CHANNEL, at, channel)
        return None

    def always_allows(self, command: Command) -> bool:
        """Tell whether a command is allowed whatever its arguments are."""
        return (
            (self.spared_none or command.name in self.commands or bool(command.flags & Flag.NO_AUTH))
            and (self.every_key or not command.access)
            and (self.every_channel or command.name not in _CHANNELS)
        )

    def allows_command(self, command: Command, argv: list[bytes]) -> bool:
        """Tell whether it allows a command, whatever its keys."""
        if self.spared_none or command.name in self.commands or command.flags & Flag.NO_AUTH:
            return True
        allowed = self.first_arguments.get(command.name, ())
        return len(argv) > 1 and argv[1].lower() in allowed

    def _allows_key(self, key: bytes, needed: Access) -> bool:
        return any(needed & access == needed and glob(pattern)(key) for pattern, access in self.keys.items())

    def allows_keys_matching(self, pattern: bytes) -> bool:
        """Tell whether every key that matches a pattern may be read and written, as far as the patterns show it."""
        every = Access.READ | Access.WRITE
        return self.every_key or any(
            access == every and (allowed == pattern or _is_prefix(allowed, pattern))
            for allowed, access in self.keys.items()
        )

    def allows_channel(self, channel: bytes, *, as_pattern: bool) -> bool:
        """Tell whether a channel may be used; a pattern only where the very same one is allowed."""
        if self.every_channel or (as_pattern and channel in self.channels):
            return True
        return not as_pattern and any(glob(pattern)(channel) for pattern in self.channels)

    # --- changing ----------------------------------------------------------------------------------------------

    def apply(self, table: Table, rule: bytes) -> None:
        """Change what is allowed by one rule."""
        word = rule.lower()
        if word in _SELECTOR_WORDS:
            _SELECTOR_WORDS[word](self, table)
        elif rule[:1] in (b"~", b"%"):
            self._add_keys(rule)
        elif rule[:1] == b"&":
            self._add_channels(rule[1:])
        elif rule[:2] in (b"+@", b"-@"):
            self._apply_category(table, word[2:].decode("latin-1"), allow=rule[:1] == b"+")
        elif rule[:1] == b"+" and b"|" in rule:
            self._allow_inner(table, word[1:])
        elif rule[:1] in (b"+", b"-"):
            self._change(_lookup(table, word[1:]), allow=rule[:1] == b"+")
            self._note_rule(rule[:1], word[1:])
        else:
            raise BadRule(_SYNTAX)

    def _allow_all_commands(self, table: Table) -> None:
        self.commands = {each.name for outer in table.values() for each in (outer, *outer.subcommands.values())}
        self.every_command = self.spared_none = True
        self.first_arguments = {}
        self.rules = []

    def _allow_no_command(self, _table: Table) -> None:
        self.commands = set()
        self.every_command = self.spared_none = False
        self.first_arguments = {}
        self.rules = []

    def _allow_all_keys(self, _table: Table) -> None:
        self.keys = {}
        self.every_key = True

    def _allow_no_key(self, _table: Table) -> None:
        self.keys = {}
        self.every_key = False

    def _allow_all_channels(self, _table: Table) -> None:
        self.channels = {}
        self.every_channel = True

    def allow_no_channel(self, _table: Table) -> None:
        """Take back every channel."""
        self.channels = {}
        self.every_channel = False

    def _add_keys(self, rule: bytes) -> None:
        if self.every_key:
            raise BadRule(_AFTER_ALL_KEYS)
        letters, tilde, pattern = rule.partition(b"~")
        access = Access.READ | Access.WRITE
        if letters:
            asked = sorted(letters[1:].upper().decode("latin-1"))
            if not tilde or asked not in (["R"], ["W"], ["R", "W"]):
                raise BadRule(_SYNTAX)
            access = Access("R" in asked) | (Access.WRITE if "W" in asked else Access(0))
        if _SPACE.search(pattern):
            raise BadRule(_SYNTAX)
        self.keys[pattern] = self.keys.get(pattern, Access(0)) | access

    def _add_channels(self, pattern: bytes) -> None:
        if self.every_channel:
            raise BadRule(_AFTER_ALL_CHANNELS)
        if _SPACE.search(pattern):
            raise BadRule(_SYNTAX)
        self.channels[pattern] = None

    def _apply_category(self, table: Table, category: str, *, allow: bool) -> None:
        if category not in CATEGORIES:
            raise BadRule(_UNKNOWN)
        for command in in_category(table, category):
            self._change(command, allow=allow)
        self._note_rule(b"+" if allow else b"-", b"@" + category.encode())

    def _allow_inner(self, table: Table, name: bytes) -> None:
        """Allow a subcommand; or of a command that has none, the calls with a certain first argument."""
        outer_name, _, inner = name.rpartition(b"|")
        outer = _lookup(table, outer_name)
        if b"|" in outer.name:
            raise BadRule(_FIRST_ARGUMENT_OF_SUBCOMMAND)
        if not inner:
            raise BadRule(_SYNTAX)
        if outer.subcommands:
            self._change(_lookup(table, name), allow=True)
        elif inner not in self.first_arguments.setdefault(outer.name, []):
            self.first_arguments[outer.name].append(inner)
        self._note_rule(b"+", name)

    def _change(self, command: Command, *, allow: bool) -> None:
        for each in (command, *command.subcommands.values()):
            self.first_arguments.pop(each.name, None)
            if allow:
                self.commands.add(each.name)
            else:
                self.commands.discard(each.name)
                self.spared_none = False

    def _note_rule(self, sign: bytes, name: bytes) -> None:
        """Remember a rule to be printed, in place of those that it makes void."""
        self.rules = [rule for rule in self.rules if rule[1:] != name and not rule[1:].startswith(name + b"|")]
        self.rules.append(sign + name)

    # --- printing ----------------------------------------------------------------------------------------------

    @property
    def shown_commands(self) -> bytes:
        """The rules about commands."""
        return b" ".join([b"+@all" if self.every_command else b"-@all", *self.rules])

    @property
    def shown_keys(self) -> bytes:
        """The patterns of keys."""
        marks = {Access.READ: b"%R~", Access.WRITE: b"%W~"}
        if self.every_key:
            return b"~*"
        return b" ".join(marks.get(access, b"~") + pattern for pattern, access in self.keys.items())

    @property
    def shown_channels(self) -> bytes:
        """The patterns of channels."""
        return b"&*" if self.every_channel else b" ".join(b"&" + pattern for pattern in self.channels)

    @property
    def shown(self) -> bytes:
        """All its rules."""
        channels = self.shown_channels if self.every_channel else b"resetchannels " + self.shown_channels
        return b" ".join(part for part in (self.shown_keys, channels.strip(), self.shown_commands) if part)


def _lookup(table: Table, name: bytes) -> Command:
    outer, bar, inner = name.partition(b"|")
    found = table.get(outer)
    if found is not None and bar:
        found = found.subcommands.get(inner)
    if found is None:
        raise BadRule(_UNKNOWN)
    return found


_SELECTOR_WORDS: Final[dict[bytes, Callable[[Selector, Table], None]]] = {
    b"allkeys": Selector._allow_all_keys,
    b"~*": Selector._allow_all_keys,
    b"resetkeys": Selector._allow_no_key,
    b"allchannels": Selector._allow_all_channels,
    b"&*": Selector._allow_all_channels,
    b"resetchannels": Selector.allow_no_channel,
    b"allcommands": Selector._allow_all_commands,
    b"+@all": Selector._allow_all_commands,
    b"nocommands": Selector._allow_no_command,
    b"-@all": Selector._allow_no_command,
}


class User:
    """Who may do what; `listens` tells whether a new selector allows every channel (`acl-pubsub-default`)."""

    def __init__(self, name: bytes, table: Table, *, listens: Callable[[], bool]) -> None:
        self.name = name
        self._table = table
        self._listens = listens
        self.enabled = False
        self.no_password = False
        self.sanitizes = True
        self.passwords: dict[bytes, None] = {}  # SHA-256, in hexadecimal
        self.selectors = [Selector(every_channel=listens())]
        self._update()

    def copy(self) -> "User":
        """Return one that changes on its own."""
        twin = User(self.name, self._table, listens=self._listens)
        twin.take(self)
        twin.passwords = dict(self.passwords)
        twin.selectors = [selector.copy() for selector in self.selectors]
        return twin

    def take(self, other: "User") -> None:
        """Take over everything of another user but the name."""
        self._listens = other._listens
        self.enabled = other.enabled
        self.no_password = other.no_password
        self.sanitizes = other.sanitizes
        self.passwords = other.passwords
        self.selectors = other.selectors
        self._update()

    def _update(self) -> None:
        self._always: dict[bytes, bool] = {}  # by full name: whether it is allowed whatever its arguments are
        self.unlimited = any(selector.unlimited for selector in self.selectors)

    # --- asking ------------------------------------------------------------------------------------------------

    def denial(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Say why the user may not run a command, or None; of all reasons, that of the selector that came closest."""
        always = self._always.get(command.name)
        if always is None:
            always = any(selector.always_allows(command) for selector in self.selectors)
            self._always[command.name] = always
        if always:
            return None
        closest = Denial(Reason.COMMAND, 0, command.name)
        for selector in self.selectors:
            denied = selector.denial(command, argv)
            if denied is None:
                return None
            closest = max(closest, denied)
        return closest

    def allows_channel(self, channel: bytes, *, as_pattern: bool) -> bool:
        """Tell whether the user may listen to a channel or pattern."""
        return any(selector.allows_channel(channel, as_pattern=as_pattern) for selector in self.selectors)

    def allows_keys_matching(self, pattern: bytes) -> bool:
        """Tell whether the user may read and write every key that matches a pattern."""
        return any(selector.allows_keys_matching(pattern) for selector in self.selectors)

    def allows_every_key(self, command: Command, argv: list[bytes]) -> bool:
        """Tell whether the user may run a command on any key."""
        return any(each.reads_every_key and each.allows_command(command, argv) for each in self.selectors)

    def accepts(self, password: bytes) -> bool:
        """Tell whether the password is one of the user's, in a time that does not depend on how nearly it is."""
        digest = sha256(password).hexdigest().encode()
        return self.no_password or sum(compare_digest(digest, known) for known in self.passwords) > 0

    # --- changing ----------------------------------------------------------------------------------------------

    def apply_all(self, rules: Iterable[bytes]) -> None:
        """Change the user by rules: by all of them, or by none where one means nothing."""
        draft = self.copy()
        for rule in joined_selectors(rules):
            try:
                draft._apply(rule)
            except BadRule as bad:
                raise BadRule(b"Error in ACL SETUSER modifier '%s': %s" % (rule, bad.text)) from None
        self.take(draft)

    def _apply(self, rule: bytes) -> None:
        word, mark, text = rule.lower(), rule[:1], rule[1:]
        if word in _USER_WORDS:
            _USER_WORDS[word](self)
        elif mark in (b">", b"#"):
            self.passwords[self._digest(mark, text)] = None
            self.no_password = False
        elif mark in (b"<", b"!"):
            if self.passwords.pop(self._digest(b">" if mark == b"<" else mark, text), 0) == 0:
                raise BadRule(_NO_SUCH_PASSWORD)
        elif mark == b"(" and rule.endswith(b")"):
            selector = Selector(every_channel=self._listens())
            for inner in rule[1:-1].split():
                selector.apply(self._table, inner)
            self.selectors.append(selector)
        else:
            self.selectors[0].apply(self._table, rule)

    @staticmethod
    def _digest(mark: bytes, text: bytes) -> bytes:
        if mark == b">":
            return sha256(text).hexdigest().encode()
        if not _HASH.fullmatch(text):
            raise BadRule(_BAD_HASH)
        return text

    def _enable(self) -> None:
        self.enabled = True

    def _disable(self) -> None:
        self.enabled = False

    def _need_no_password(self) -> None:
        self.no_password = True
        self.passwords = {}

    def _reset_passwords(self) -> None:
        self.no_password = False
        self.passwords = {}

    def _sanitize(self) -> None:
        self.sanitizes = True

    def _skip_sanitizing(self) -> None:
        self.sanitizes = False

    def _clear_selectors(self) -> None:
        del self.selectors[1:]

    def _reset(self) -> None:
        self.take(User(self.name, self._table, listens=self._listens))

    # --- printing ----------------------------------------------------------------------------------------------

    @property
    def flags(self) -> list[bytes]:
        """The words that do not concern commands, keys or channels."""
        flags = [b"on" if self.enabled else b"off"]
        if self.no_password:
            flags.append(b"nopass")
        return [*flags, b"sanitize-payload" if self.sanitizes else b"skip-sanitize-payload"]

    @property
    def shown(self) -> bytes:
        """All its rules, as ACL LIST, ACL files and redis.conf have them."""
        root, *others = self.selectors
        passwords = [b"#" + digest for digest in self.passwords]
        return b" ".join([*self.flags, *passwords, root.shown, *(b"(%s)" % other.shown for other in others)])


_USER_WORDS: Final[dict[bytes, Callable[[User], None]]] = {
    b"on": User._enable,
    b"off": User._disable,
    b"nopass": User._need_no_password,
    b"resetpass": User._reset_passwords,
    b"sanitize-payload": User._sanitize,
    b"skip-sanitize-payload": User._skip_sanitizing,
    b"clearselectors": User._clear_selectors,
    b"reset": User._reset,
}


def joined_selectors(rules: Iterable[bytes]) -> list[bytes]:
    """Join the words of a selector that was written as several."""
    joined: list[bytes] = []
    opened = b""
    for rule in rules:
        if opened:
            opened += b" " + rule
        elif rule.startswith(b"(") and not rule.endswith(b")"):
            opened = rule
        else:
            joined.append(rule)
        if opened.endswith(b")"):
            joined.append(opened)
            opened = b""
    if opened:
        raise BadRule(b"Unmatched parenthesis in acl selector starting at '%s'." % opened.split(b" ", 1)[0])
    return joined
