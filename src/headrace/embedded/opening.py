"""Opening a database in this process: settings, directory, what it holds, and the end of it all.

    open(path)  ─► Config ─► Engine, Journal, Store ─► recovery ─► Host + Maintenance ─► Database
    open(None)  ─► Config ─► Engine ─────────────────────────────► Host + Maintenance ─► Database

Databases that are still open when the interpreter ends are closed then; a process that is forked has none.
"""

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headrace.api.database import Database
from headrace.api.errors import CannotOpen
from headrace.clients.urls import SCHEMES, shown
from headrace.commands.all import make_engine
from headrace.embedded.host import Host
from headrace.embedded.interrupts import postpone_interrupts, restore_interrupts
from headrace.embedded.local_client import LocalClient
from headrace.embedded.maintenance import Maintenance
from headrace.engine.configuration.config import ChangeRefused, Config, UnknownSetting
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.errors import CommandError
from headrace.storage.assembly import assemble
from headrace.storage.beside import Ticking
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.disk import Disk
from headrace.storage.errors import DirectoryInUse
from headrace.storage.journal import Journal
from headrace.storage.offloading import POLICY

_OF_A_SERVER: Final = (
    *("bind", "port", "unixsocket", "unixsocketperm", "tcp-backlog", "tcp-keepalive", "protected-mode", "maxclients"),
    *("tls-port", "tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir"),
    *("tls-auth-clients", "tls-protocols", "tls-ciphers", "timeout", "client-query-buffer-limit"),
    *("client-output-buffer-limit", "daemonize", "pidfile", "logfile", "loglevel", "aclfile"),
)
_OF_A_DIRECTORY: Final = ("appendonly", "save", "dir")

_log = logging.getLogger("headrace")

_open_hosts: dict[Host, Callable[[], None]] = {}  # and how to close each


def open_database(path: str | os.PathLike[str] | None, settings: dict[str, object]) -> Database:
    """Do what `headrace.open` says."""
    if isinstance(path, str) and path.startswith(SCHEMES):
        raise CannotOpen(f"{shown(path)!r} is a server: headrace.connect({shown(path)!r}) connects to it.")
    config = _configured(settings, in_memory=path is None)
    if path is None:
        host = Host(make_engine(config), Journal(Disk(), background=False), None)
    else:
        host = _open_directory(Path(path).expanduser().absolute(), config)
    _refuse_changes(config, in_memory=path is None)
    host.engine.hooks.failure = _log_failure
    host.engine.hooks.warning = _log.warning
    maintenance = Maintenance(host)

    def close() -> None:
        if _open_hosts.pop(host, None) is None:
            return
        maintenance.stop()
        host.close(lambda sound: _finish(host, sound=sound))
        if not _open_hosts:
            restore_interrupts()

    _open_hosts[host] = close
    postpone_interrupts(_open_hosts)
    place = None if host.store is None else host.store.directory.path
    return Database(LocalClient(host, "in memory" if place is None else str(place), close), path=place)


def _open_directory(path: Path, config: Config) -> Host:
    with explained("make the directory", path):
        path.mkdir(parents=True, exist_ok=True)
    config.load("dir", [str(path)])
    engine, journal, store = assemble(config, _Notes())
    try:
        _lock(store.directory)
        for _ in store.open():
            store.offloading.tick()  # what is loaded may be more than memory takes
    except BaseException:
        store.directory.unlock()
        journal.close()
        raise
    store.offloading.ticking = Ticking()
    store.offloading.beside = store.rewriting.beside = store.offloading.ticking
    host = Host(engine, journal, store)
    host.take_effects()
    return host


def _lock(directory: DataDirectory) -> None:
    try:
        directory.lock()
    except DirectoryInUse:
        user = directory.user() or "another process"
        if f"(pid {os.getpid()})" in user:
            user = "this process already, which has it open"
        raise DirectoryInUse(
            f"The directory {directory.path} is in use by {user}: close it there, or open another directory."
        ) from None


def _finish(host: Host, *, sound: bool) -> None:
    """Leave the directory; with save points and without append-only files, a last snapshot is written."""
    store = host.store
    if store is None:
        return
    if sound and host.engine.config["save"] and not store.appends:
        store.stop_jobs()
        with suppress(CommandError):  # which the log has told
            store.save()
    store.close()


# --- settings --------------------------------------------------------------------------------------------------------


def _configured(settings: dict[str, object], *, in_memory: bool) -> Config:
    config = Config()
    if in_memory:
        config.load("appendonly", ["no"])
    if "memory" in settings:
        settings = {**settings, "maxmemory": settings["memory"], "maxmemory_policy": POLICY}
        if in_memory:
            raise CannotOpen("memory needs a directory for what does not fit, which is what open() takes first.")
        settings["maxmemory"] = str(settings.pop("memory")).replace(" ", "")
    for keyword, value in settings.items():
        name = keyword.replace("_", "-")
        if name in _OF_A_SERVER:
            raise CannotOpen(f"{keyword} is a setting of a server, and there is none here: leave it out.")
        if (in_memory and name in _OF_A_DIRECTORY) or name == "dir":
            raise CannotOpen(f"{keyword} needs a directory, which is what open() takes first, as in open('data').")
        try:
            config.load(name, _words(value))
        except UnknownSetting:
            raise CannotOpen(f"There is no setting {keyword}: they are those of redis.conf, with _ for -.") from None
        except ChangeRefused as refusal:
            raise CannotOpen(f"The setting {keyword} cannot be {value!r}: {refusal.reason}.") from None
    return config


def _words(value: object) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list | tuple):
        return [str(word) for word in value]
    return str(value).split() or [""]


def _refuse_changes(config: Config, *, in_memory: bool) -> None:
    """Let CONFIG SET refuse settings that have no meaning without a server."""

    def keep(name: str, reason: str) -> None:
        kept = config[name]

        def refuse(value: Any) -> None:
            if value != kept:  # else it is the change that is undone
                raise SettingRefused(reason)

        config.watch(name, refuse)

    for name in _OF_A_SERVER:
        keep(name, "it is a setting of a server, and there is none here")
    for name in _OF_A_DIRECTORY if in_memory else ():
        keep(name, "the database was opened in memory only")


# --- messages for the log of the program -----------------------------------------------------------------------------


class _Notes:
    """Storage's sentences, for the logger `headrace`."""

    def notice(self, text: str) -> None:
        """Note what is usual."""
        _log.info("%s", text)

    def warning(self, text: str) -> None:
        """Note what somebody should know."""
        _log.warning("%s", text)


def _log_failure(command: bytes, bug: Exception) -> None:
    _log.error("Command %s failed: please report this.", command.decode(), exc_info=bug)


# --- the end, and forks ----------------------------------------------------------------------------------------------


@atexit.register
def _close_all() -> None:
    for close in list(_open_hosts.values()):
        close()


def _forget_all() -> None:
    """Leave everything to the parent: its lock ends with it, although this process continues."""
    for host in _open_hosts:
        host.be_forked()
        if host.store is not None:
            host.store.directory.unlock()
    _open_hosts.clear()


os.register_at_fork(after_in_child=_forget_all)
