"""The users: which there are, which user each connection has, and the files that they are kept in.

    default      always there; a new connection has this user, and need not authenticate while it needs no password
    requirepass  its password, which CONFIG SET and a redis.conf may change
    user         a line of a redis.conf: a name and rules
    aclfile      a file of such lines, in place of those; ACL LOAD reads it, all or nothing, ACL SAVE writes it

A change holds for connections at once. A connection that listens to a channel which is no longer allowed, or whose user
is gone, must be ended; the functions below return these clients, and the caller ends them.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.engine.acl.log import AclLog
from headrace.engine.acl.logins import Logins
from headrace.engine.acl.rules import BadRule, Denial, Reason, User
from headrace.engine.client import Client
from headrace.engine.client_line import describe
from headrace.engine.command import Command
from headrace.engine.engine import Engine
from headrace.engine.pubsub.exchange import Kind, held_by
from headrace.engine.whole_file import replace_file

DEFAULT: Final = b"default"

_DENIED: Final = {
    Reason.KEY: b"NOPERM No permissions to access a key",
    Reason.CHANNEL: b"NOPERM No permissions to access a channel",
}
_NO_LONGER: Final = (
    b"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "
    b"This command is no longer allowed for the following reason: "
)
_NOT_ANY_MORE: Final = {
    Reason.COMMAND: b"no permission to execute the command or subcommand",
    Reason.KEY: b"no permission to touch the specified keys",
    Reason.CHANNEL: b"no permission to access one of the channels used as arguments to the command",
}


class BadUsers(HeadraceError, ValueError):
    """Lines that describe no users; the text says which and why. Nothing was changed."""


class Users:
    """All users of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.log = AclLog()
        self.logins = Logins()
        self.default = self._born_default()
        self.by_name = {DEFAULT: self.default}

    def _born(self, name: bytes) -> User:
        """Return a user who may do nothing yet."""
        config = self._engine.config
        return User(name, self._engine.commands.table, listens=lambda: config["acl-pubsub-default"] == "allchannels")

    def _born_default(self) -> User:
        """Return the default user as it is where nothing else is said."""
        user = self._born(DEFAULT)
        password = self._engine.config["requirepass"]
        user.apply_all([b"on", b">" + password if password else b"nopass", b"~*", b"&*", b"+@all"])
        return user

    # --- connections -------------------------------------------------------------------------------------------

    @property
    def open_to_all(self) -> bool:
        """Whether new connections need not authenticate."""
        return self.default.no_password and self.default.enabled

    def welcome(self, client: Client) -> None:
        """Give a client the default user, as when it connects and after RESET."""
        client.user = self.default
        client.authenticated = self.open_to_all
        client.update_guard()

    def authenticate(self, client: Client, name: bytes, password: bytes) -> bool:
        """Log a client in as a user, if the password is right."""
        user = self.by_name.get(name)
        # A name that no user has takes as long as one that a user has.
        right = (user or self.default).accepts(password)
        if user is None or not right or not user.enabled:
            return False
        client.user = user
        client.authenticated = True
        client.update_guard()
        return True

    def refuse(
        self, client: Client, command: Command, argv: list[bytes], *, context: bytes | None = None
    ) -> bytes | None:
        """Say why a client may not run a command, and log it; None where it may."""
        denied = client.user.denial(command, argv)
        if denied is None:
            return None
        self.note(client, denied.reason, denied.what, client.user.name, argv, context=context)
        return _DENIED.get(denied.reason) or b"NOPERM " + explain(client.user, denied)

    def refuse_queued(self, client: Client, command: Command, argv: list[bytes]) -> bytes | None:
        """Say why a command is no longer allowed that was allowed when it was queued, and log it."""
        denied = client.user.denial(command, argv)
        if denied is None:
            return None
        self.note(client, denied.reason, denied.what, client.user.name, argv)
        return _NO_LONGER + _NOT_ANY_MORE[denied.reason]

    def note(
        self,
        client: Client,
        reason: Reason,
        what: bytes,
        user: bytes,
        argv: list[bytes],
        *,
        context: bytes | None = None,
    ) -> None:
        """Log a refusal; where no context is given, it is found out."""
        if context is None:
            context = b"toplevel" if client.queue is None and not client.executing else b"multi"
        now_ms = self._engine.clocks.now_ms
        self.log.add(
            reason,
            what,
            context=context,
            user=user,
            client=describe(self._engine, client, self._engine.clocks.steady_now_ms, sum(map(len, argv))).strip(),
            now_ms=now_ms,
            most=self._engine.config["acllog-max-len"],
        )

    # --- changing ----------------------------------------------------------------------------------------------

    def set_user(self, name: bytes, rules: Iterable[bytes]) -> list[Client]:
        """Make or change a user by rules, or by none of them where one is a BadRule; return clients to end."""
        user = self.by_name.get(name) or self._born(name)
        user.apply_all(rules)
        self.by_name[name] = user
        return self._follow()

    def delete(self, name: bytes) -> list[Client]:
        """Remove a user; return clients that must be ended."""
        del self.by_name[name]
        return self._follow()

    def password_changed(self, password: bytes) -> None:
        """Give the default user the password of `requirepass`, or let it need none."""
        self.set_user(DEFAULT, [b"resetpass", b">" + password if password else b"nopass"])

    def _follow(self) -> list[Client]:
        """Apply the changes to connections; return the clients that must end."""
        ended = []
        for client in self._engine.clients.values():
            if not client.authenticated and self.open_to_all:
                client.authenticated = True
            client.update_guard()
            user = client.user
            if self.by_name.get(user.name) is not user or not _may_listen(user, client):
                ended.append(client)
        return ended

    # --- lines -------------------------------------------------------------------------------------------------

    def lines(self) -> list[bytes]:
        """Write every user as a line, by name."""
        return [b"user %s %s" % (name, user.shown) for name, user in sorted(self.by_name.items())]

    def directives(self) -> list[str]:
        """Write the users as lines of a redis.conf: none where a file keeps them, or there are none to speak of."""
        untouched = len(self.by_name) == 1 and self.default.shown == self._born_default().shown
        return [] if untouched or self._engine.config["aclfile"] else [os.fsdecode(line) for line in self.lines()]

    def load_lines(self, lines: Iterable[list[bytes]], *, where: str) -> list[Client]:
        """Take over users from lines of words, which follow `user`, all or none; return clients that must be ended.

        Users that are not named are removed, except the default user, which is then as it was in the beginning.
        """
        loaded: dict[bytes, User] = {}
        for number, words in enumerate(lines, 1):
            if not words:
                continue
            name, *rules = words
            if name in loaded:
                raise BadUsers(f"{where}:{number}: Duplicate user '{os.fsdecode(name)}' found.")
            loaded[name] = self._born(name)
            try:
                loaded[name].apply_all(rules)
            except BadRule as bad:
                raise BadUsers(f"{where}:{number}: user {os.fsdecode(name)}: {os.fsdecode(bad.text)}.") from None
        if DEFAULT not in loaded:
            loaded[DEFAULT] = self._born_default()
        kept = {name: self.by_name[name] for name in loaded if name in self.by_name}
        for name, user in kept.items():
            user.take(loaded[name])
        self.by_name = {**loaded, **kept}
        return self._follow()

    def load_file(self, path: str) -> list[Client]:
        """Take over the users of a file; return clients that must be ended."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise BadUsers(f"Error loading ACLs, opening file '{path}': {error.strerror}") from None
        return self.load_lines(_words_of_lines(content, path), where=path)

    def save_file(self, path: str) -> None:
        """Write all users to a file, which has them all or is as it was."""
        replace_file(Path(path).absolute(), b"".join(line + b"\n" for line in self.lines()))


def explain(user: User, denied: Denial) -> bytes:
    """Say in full what a user may not do."""
    if denied.reason == Reason.COMMAND:
        return b"User %s has no permissions to run the '%s' command" % (user.name, denied.what)
    kind = b"key" if denied.reason == Reason.KEY else b"channel"
    return b"User %s has no permissions to access the '%s' %s" % (user.name, denied.what, kind)


def _may_listen(user: User, client: Client) -> bool:
    return all(
        user.allows_channel(name, as_pattern=kind is Kind.PATTERN) for kind in Kind for name in held_by(client, kind)
    )


def _words_of_lines(content: bytes, path: str) -> Iterator[list[bytes]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            yield []
        elif words[0] != b"user" or len(words) == 1:
            raise BadUsers(f"{path}:{number}: a line must begin with 'user' and a name.")
        else:
            yield words[1:]
