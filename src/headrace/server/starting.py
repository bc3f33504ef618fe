"""A start of the server: what must be in order before anything runs.

The configuration, the directory, the log, the limits of the system, the users and the sockets are prepared in this
order. An error is one sentence, and nothing runs.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from headrace.core.errors import HeadraceError
from headrace.engine.acl.users import BadUsers
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.server import redis_conf
from headrace.server.connections import raise_descriptor_limit
from headrace.server.log import Log
from headrace.server.policy_file import read_policies
from headrace.server.server import Server
from headrace.server.supervision import Supervisor, go_to_background


class CannotServe(HeadraceError):
    """The server cannot start; the text is one sentence for a person."""


def serve(arguments: list[str]) -> None:
    """Run a server with redis-server's arguments until it is told to stop.

    What prevents it is raised before anything runs.
    """
    config = Config()
    file = redis_conf.load(config, arguments)
    as_redis_saves = False
    if file is not None:
        config.file = str(file)
        as_redis_saves = config.keep_snapshots_as_redis()
    supervisor = Supervisor(config["supervised"])
    let_go = go_to_background() if config["daemonize"] and supervisor.kind == "no" else None
    _prepare_directory(config["dir"])
    log = _open_log(config)
    if file is not None:
        config.rewrite_file = lambda: _rewrite_file(file, config, log)
    try:
        if supervisor.missing:
            log.warning(f"supervised {supervisor.missing}: nobody of that kind has started this process.")
        if config.inert_given:
            log.notice(f"These settings are kept, but change nothing here: {', '.join(config.inert_given)}.")
        if as_redis_saves:
            points = config.shown(["save"])["save"]
            log.notice(f"The file says `appendonly no` and nothing of `save`: as in redis-server it is {points}.")
        _run(config, log, supervisor, let_go)
    except Exception as error:
        if log.is_kept:  # the terminal, where it is said as well, may be gone
            log.warning(str(error))
        raise


def _prepare_directory(path: str) -> None:
    """Make the data directory the current one, and be sure that it can be written to."""
    try:
        os.chdir(path)
        with TemporaryFile(dir="."):
            pass
    except OSError as error:
        raise CannotServe(
            f"The directory {Path(path).absolute()} cannot be written to ({os.strerror(error.errno or 0)}); "
            "choose another with --dir."
        ) from None


def _prepare_users(engine: Engine) -> None:
    """Take over the users and the names of commands that the configuration asks for."""
    config = engine.config
    if config["aclfile"] and config.users:
        raise CannotServe("Users are declared both in the configuration and in an aclfile; keep them in one of these.")
    try:
        if config["aclfile"]:
            engine.users.load_file(config["aclfile"])
        elif config.users:
            engine.users.load_lines([list(map(os.fsencode, words)) for words in config.users], where="user directive")
    except BadUsers as error:
        raise CannotServe(str(error)) from None
    for name, called in config.renamed:
        try:
            engine.commands.rename(os.fsencode(name.lower()), os.fsencode(called.lower()))
        except ValueError as error:
            raise CannotServe(f"The directive 'rename-command {name} {called}' is refused: {error}.") from None


def _rewrite_file(file: Path, config: Config, log: Log) -> None:
    try:
        redis_conf.rewrite_file(file, config)
    except OSError as error:
        log.warning(f"CONFIG REWRITE of {file} failed: {os.strerror(error.errno or 0)}")
        raise
    log.notice(f"CONFIG REWRITE has written {file}")


def _open_log(config: Config) -> Log:
    try:
        log = Log(config["logfile"], config["loglevel"])
    except OSError as error:
        raise CannotServe(
            f"The log file {config['logfile']} cannot be opened: {os.strerror(error.errno or 0)}."
        ) from None
    if config["syslog-enabled"]:
        log.use_syslog(config["syslog-ident"], config["syslog-facility"])
    return log


def _run(config: Config, log: Log, supervisor: Supervisor, let_go: Callable[[], None] | None) -> None:
    possible = raise_descriptor_limit(config["maxclients"])
    if possible < config["maxclients"]:
        log.warning(f"The system lets a process have {possible} clients: maxclients is lowered to that.")
        config.load("maxclients", [str(max(possible, 1))])
    server = Server(config, log, supervisor)
    server.store.directory.lock()
    _prepare_users(server.engine)
    if config["policies"]:
        read_policies(config["policies"], config["databases"])
    server.ports.listen()
    server.metrics.listen()
    pidfile = _write_pidfile(config["pidfile"], log)
    try:
        if let_go is not None:
            let_go()
        server.run()
    finally:
        if pidfile is not None:
            with suppress(OSError):
                pidfile.unlink()


def _write_pidfile(path: str, log: Log) -> Path | None:
    """Write the ID of this process; where that fails, serve nevertheless, as redis-server does."""
    if not path:
        return None
    pidfile = Path(path).absolute()  # the current directory may change
    try:
        pidfile.write_text(f"{os.getpid()}\n")
    except OSError as error:
        log.warning(f"Failed to write PID file {pidfile}: {os.strerror(error.errno or 0)}")
        return None
    return pidfile
