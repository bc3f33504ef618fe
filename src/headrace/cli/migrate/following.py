"""The new server follows the old one: asked to, watched until it has everything, and released."""

import time
from typing import Any, Final

from headrace.cli.errors import CommandFailed
from headrace.cli.migrate.endpoint import Endpoint, Login, ServerLoading
from headrace.cli.migrate.progress import lag_progress, snapshot_progress
from headrace.cli.migrate.undoing import Changes
from headrace.cli.showing import duration

_REACH_S: Final = 15.0  # for the new server to reach the old one, and to log in there
_POLL_S: Final = 0.05
_SHORT_POLL_S: Final = 0.005
_FOLLOWER_SETTINGS: Final = ("masteruser", "masterauth", "tls-replication")

_LOADING: Final = {
    "role": "slave",
    "master_link_status": "down",
    "master_sync_in_progress": 1,
    "slave_repl_offset": -1,
}


class Following:
    """See the module."""

    def __init__(self, master: Endpoint, replica: Endpoint, changes: Changes, timeout_ms: int) -> None:
        self._master = master
        self._replica = replica
        self._changes = changes
        self._timeout_ms = timeout_ms
        self._deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else float("inf")
        self._former: dict[str, str] = {}

    # --- beginning and end -----------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether the replica follows this very master."""
        ours, theirs = self._master.info("replication"), self._replica.info("replication")
        return bool(theirs["role"] == "slave" and theirs["master_replid"] == ours["master_replid"])

    def begin(self, login: Login, *, was_empty: bool) -> None:
        """Make the server a replica."""

        def stop() -> None:
            if self._replica.info("replication")["role"] != "slave":
                return  # whoever made it a master wants what it has
            self._replica.ask("REPLICAOF", "NO", "ONE")
            if was_empty:
                self._replica.ask("FLUSHALL")

        self._change_settings(login)
        self._changes.note(stop, f"{self._replica} may still follow the old one: REPLICAOF NO ONE ends that.")
        self._replica.ask("REPLICAOF", login.host, login.port)

    def _change_settings(self, login: Login) -> None:
        wanted = dict(zip(_FOLLOWER_SETTINGS, (login.user, login.password, "yes" if login.tls else "no"), strict=True))
        former = {name: self._replica.setting(name) for name in wanted}
        changed = {name: value for name, value in wanted.items() if (former[name] or _default(name)) != value}
        self._former = {name: former[name] or _default(name) for name in changed}
        if changed:
            self._changes.note(self.restore_settings, f"{self._replica} keeps other settings for its master.")
            self._replica.change_settings(changed)

    def restore_settings(self) -> None:
        """Give the replica the settings that it had."""
        self._replica.change_settings(self._former)

    # --- progress --------------------------------------------------------------------------------------------------

    def await_everything(self) -> None:
        """Wait until the replica has the snapshot and what came since."""
        self._await_reached()
        with snapshot_progress() as advance:
            while (facts := self._replica_facts())["master_link_status"] != "up":
                if "master_sync_read_bytes" in facts:
                    total = int(facts["master_sync_total_bytes"])
                    advance(int(facts["master_sync_read_bytes"]), total)
                self._check_time()
                time.sleep(_POLL_S)
        self._require_same_history()
        with lag_progress() as advance:
            while (lag := self._lag())[0] < lag[1]:
                advance(*lag)
                self._check_time()
                time.sleep(_POLL_S)

    def catch_up(self, deadline: float = float("inf")) -> None:
        """Wait until the replica has what the master has now."""
        target = int(self._master.info("replication")["master_repl_offset"])
        deadline = min(deadline, self._deadline)
        while True:
            facts = self._replica_facts()
            if facts["role"] == "slave" and int(facts["slave_repl_offset"]) >= target:
                return
            if facts["role"] != "slave":
                raise CommandFailed(f"{self._replica} was made a master by somebody else.")
            if time.monotonic() > deadline:
                raise CommandFailed(f"{self._replica} does not keep up with what is written.")
            time.sleep(_SHORT_POLL_S)

    def _await_reached(self) -> None:
        """Wait until the master has heard of the replica."""
        deadline = time.monotonic() + _REACH_S
        while True:
            facts = self._replica_facts()
            if facts["master_link_status"] == "up" or facts["master_sync_in_progress"] or self._is_awaited():
                return
            if time.monotonic() > deadline:
                why = facts.get("master_link_error") or "it gives no reason, its log may"
                raise CommandFailed(
                    f"{self._replica} cannot follow {facts['master_host']}:{facts['master_port']} ({why}): name the "
                    f"address at which it finds the {self._master.side} server with {self._master.announcing}, and "
                    "check the password."
                )
            time.sleep(_POLL_S)

    def _is_awaited(self) -> bool:
        """Whether the master prepares a snapshot for a replica."""
        facts = self._master.info("replication")
        replicas = [value for name, value in facts.items() if name.startswith("slave") and isinstance(value, dict)]
        return any(each.get("state") in {"wait_bgsave", "send_bulk"} for each in replicas)

    def _require_same_history(self) -> None:
        if not self.is_on:
            facts = self._replica_facts()
            raise CommandFailed(
                f"{self._replica} found another server at {facts.get('master_host')}:{facts.get('master_port')} than "
                f"the one that was named: say where it finds that with {self._master.announcing}."
            )

    def _lag(self) -> tuple[int, int]:
        target = int(self._master.info("replication")["master_repl_offset"])
        return int(self._replica_facts().get("slave_repl_offset", 0)), target

    def _replica_facts(self) -> dict[str, Any]:
        try:
            return self._replica.info("replication")
        except ServerLoading:
            return {
                "role": "slave",
                "master_link_status": "down",
                "master_sync_in_progress": 1,
                "slave_repl_offset": -1,
            }

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise CommandFailed(
                f"{self._replica} has not everything after {duration(self._timeout_ms)}: give it longer with --timeout."
            )


def _default(name: str) -> str:
    return "no" if name == "tls-replication" else ""
