"""`headrace migrate`: the steps of a move in their order, and back where one fails."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headrace.cli.address import ServerAddress
from headrace.cli.command import ENDED, INTERRUPTED
from headrace.cli.errors import CommandFailed
from headrace.cli.interrupts import Terminated, terminable, undivided
from headrace.cli.migrate.comparing import Comparison, Difference, Outcome
from headrace.cli.migrate.endpoint import Endpoint
from headrace.cli.migrate.following import Following
from headrace.cli.migrate.progress import comparing_progress, say
from headrace.cli.migrate.switching import Switch
from headrace.cli.migrate.undoing import Changes
from headrace.cli.showing import duration, plural
from headrace.cli.terminal import confirm, require_answer

DIFFERENT: Final = 3
INCOMPLETE: Final = 4

_NAMED: Final = 10  # differences that are printed
_REPLY_S: Final = 30.0
_QUESTION: Final = "Switch to the new server?"


@dataclass(frozen=True)
class MigrateOptions:
    """The options of a move."""

    check: bool
    switch: bool
    reverse: bool
    replace: bool
    leave_out: bool
    announce: str | None
    announce_new: str | None
    timeout_ms: int
    pause_ms: int
    yes: bool


class Different(CommandFailed):
    """Both servers do not have the same."""


def run_migrate(old: tuple[str, str | None], new: tuple[str, str | None], options: MigrateOptions) -> int:
    """Move from one url to another, each with a password or none; returns the exit status."""
    ours, theirs = (
        Endpoint(side, ServerAddress(url=url, password=password), _REPLY_S)
        for side, (url, password) in (("old", old), ("new", new))
    )
    changes = Changes()
    migration = _Migration(ours, theirs, options, changes)
    try:
        with terminable():
            return migration.run()
    except (CommandFailed, KeyboardInterrupt) as failure:
        return _report(failure, migration, changes)
    except BaseException:  # the reader of our output left, or the question was not answered
        _put_back(changes)
        raise
    finally:
        ours.close()
        theirs.close()


def _report(failure: BaseException, migration: "_Migration", changes: Changes) -> int:
    """Put back what can be put back, say why the move ended, and return the exit status."""
    reason = str(failure) or "Stopped."
    if migration.is_moved:
        _print_error(f"The new server is the master, but the move is not finished: {reason}")
        return INCOMPLETE
    stopped = isinstance(failure, KeyboardInterrupt)
    _print_error(f"{reason} {_put_back(changes)}" if changes or stopped else reason)
    if stopped:
        return ENDED if isinstance(failure, Terminated) else INTERRUPTED
    return DIFFERENT if isinstance(failure, Different) else 1


def _put_back(changes: Changes) -> str:
    left: list[str] | None = None
    try:
        with undivided():
            left = changes.undo()
    except KeyboardInterrupt:
        if left is None:
            raise
    return " ".join(left) or "Everything is as before."


def _print_error(sentence: str) -> None:
    print(f"headrace: {sentence}", file=sys.stderr)  # noqa: T201


class _Migration:
    """The steps."""

    def __init__(self, old: Endpoint, new: Endpoint, options: MigrateOptions, changes: Changes) -> None:
        self._old = old
        self._new = new
        self._options = options
        self._changes = changes
        self._following = Following(old, new, changes, options.timeout_ms)
        self.is_moved = False  # the new server is the master, and nothing is put back any more

    def run(self) -> int:
        """Do them all."""
        options = self._options
        if not options.check and options.switch:
            require_answer(_QUESTION, yes=options.yes)
        was_empty = self._introduce()
        follows = self._following.is_on
        if options.check:
            return self._check(follows=follows)
        self._require_possible(follows=follows, was_empty=was_empty)
        if follows:
            say("The new server follows the old one already.")
        else:
            self._following.begin(self._old.login(options.announce), was_empty=was_empty)
            say("The new server follows the old one.")
        self._following.await_everything()
        say("The new server has everything.")
        comparison = Comparison(self._old, self._new, self._following.catch_up)
        self._compare(comparison)
        if not options.switch:
            self._changes.keep()
            say("The new server goes on following: the same command without --no-switch switches.")
            return 0
        confirm(_QUESTION, yes=options.yes, otherwise="There was no switch.")
        return self._switch(comparison)

    # --- before anything is changed --------------------------------------------------------------------------------

    def _introduce(self) -> bool:
        """Say which servers these are; returns whether the new one is empty."""
        counts = []
        for server in (self._old, self._new):
            count = sum(server.key_counts().values())
            counts.append(count)
            say(f"{server}: {server.product()}, {plural(count, 'key') if count else 'empty'}")
        if self._old.info("server")["run_id"] == self._new.info("server")["run_id"]:
            raise CommandFailed("Both urls lead to the same server.")
        return counts[1] == 0

    def _check(self, *, follows: bool) -> int:
        catch_up: Callable[[], None] = self._following.catch_up if follows else lambda: None
        self._compare(Comparison(self._old, self._new, catch_up))
        return 0

    def _require_possible(self, *, follows: bool, was_empty: bool) -> None:
        old, new = self._old.info("replication"), self._new.info("replication")
        if old["role"] != "master":
            raise CommandFailed(
                f"{self._old} is itself a replica of {old['master_host']}:{old['master_port']}: name its master."
            )
        for server in (self._old, self._new):
            if server.info("cluster").get("cluster_enabled"):
                raise CommandFailed(f"{server} belongs to a cluster, which cannot be moved as one server.")
        if not follows and new["role"] != "master":
            raise CommandFailed(
                f"{self._new} is a replica of {new['master_host']}:{new['master_port']}, not of the old server: "
                "REPLICAOF NO ONE ends that."
            )
        if not follows and not was_empty and not self._options.replace:
            raise CommandFailed(f"{self._new} is not empty: say --replace to give up the data that it has.")
        highest, databases = max(self._old.key_counts(), default=0), self._new.setting("databases")
        if databases and highest >= int(databases):
            raise CommandFailed(
                f"{self._old} uses database {highest}, and the new one has {databases}: start it with --databases "
                f"{highest + 1}."
            )

    # --- comparing -------------------------------------------------------------------------------------------------

    def _compare(self, comparison: Comparison) -> None:
        with comparing_progress(sum(self._old.key_counts().values())) as advance:
            outcome = comparison.compare_all(advance)
        self._judge(outcome, "Equal")

    def _judge(self, outcome: Outcome, verdict: str) -> None:
        """Say that both are equal, or raise what they differ in."""
        foreign = [each for each in outcome.differences if each.foreign]
        others = [each for each in outcome.differences if not each.foreign]
        if others:
            _list(others)
            raise Different(f"The servers differ in {plural(len(others), 'key')}.")
        skipped = int(self._new.info("replication").get("master_skipped_commands", 0))
        if foreign or skipped:
            _list(foreign)
            if not self._options.leave_out:
                what = f"{plural(len(foreign), 'key')} of types" if foreign else plural(skipped, "command")
                raise Different(f"{self._new} has no way to hold {what} of the old one: say --leave-out to do without.")
        more = f"; {plural(len(foreign), 'key')} left out" if foreign else ""
        if outcome.busy:
            changing = plural(len(outcome.busy), "key changes", "keys change")
            more += f"; {changing} too fast to be compared while clients write"
        say(f"{verdict}: {outcome}{more}.")

    # --- the switch ------------------------------------------------------------------------------------------------

    def _switch(self, comparison: Comparison) -> int:
        options = self._options
        quick = comparison.took_s * 1000 < options.pause_ms / 4  # writes can wait until all is compared once more
        switch = Switch(self._old, self._new, self._changes, options.pause_ms)
        again = comparison.compare_all if quick else comparison.compare_again
        try:
            self._hand_over(switch, again)
            self._finish(switch)
        finally:
            if self.is_moved:
                with suppress(CommandFailed):
                    switch.end_pause()
        return 0

    def _hand_over(self, switch: Switch, compare: Callable[[], Outcome]) -> None:
        try:
            switch.run(self._following, lambda: self._judge(compare(), "Equal while nobody writes"))
        except KeyboardInterrupt:
            if not switch.is_done:
                raise
        finally:
            self.is_moved = switch.is_done

    def _finish(self, switch: Switch) -> None:
        say("The new server is the master now.")
        self._following.restore_settings()
        if self._options.reverse:
            login = self._new.login(self._options.announce_new)
            switch.reverse(login)
            say("The old server follows the new one, and refuses writes as its replica.")
        else:
            switch.end_pause()
            say(
                f"The old server refuses writes, until it is restarted or told CONFIG SET min-replicas-to-write "
                f"{switch.former_minimum}."
            )
        say(f"Writes waited {duration(switch.paused_ms)}. Let clients use the new server.")


def _list(differences: list[Difference]) -> None:
    for each in differences[:_NAMED]:
        say(str(each))
    if len(differences) > _NAMED:
        say(f"… and {plural(len(differences) - _NAMED, 'key')} more.")
