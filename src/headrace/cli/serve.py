"""The declaration of `headrace serve`."""

from typing import Final

import typer

SERVE_HELP: Final = """Serve the Redis protocol.

Takes a configuration file in redis.conf syntax (or - for standard input), then any setting of it as a flag, as
redis-server does. The most used:

\b
  --port 6379             TCP port; 0: none
  --bind 127.0.0.1 -::1   addresses; with a dash, only if there is such a one
  --unixsocket PATH       a unix socket to listen on, too
  --dir .                 the data directory
  --appendonly yes        write everything to disk before it is acknowledged; no: keep it in memory
  --appendfsync always    or everysec, or no: how much a crash of the machine may take
  --requirepass PASSWORD  clients have to authenticate
  --protected-mode yes    without a password, serve only this machine
  --maxclients 10000      connections at a time
  --maxmemory 0           refuse writes from here on, such as 4gb; 0: never
  --timeout 0             close connections idle for so many seconds; 0: never
  --databases 16          how many there are
  --loglevel notice       debug, verbose, notice, warning or nothing
  --logfile PATH          where to log; standard output by default
  --policies PATH         rules of streams and groups, taken over from a TOML file
  --console-port 0        a page for browsers on this machine; 0: none
  --metrics-port 0        a port with metrics for Prometheus; 0: none

For example:

\b
  headrace serve --port 7000
  headrace serve /etc/headrace.conf --loglevel verbose
"""


def serve(context: typer.Context) -> None:
    """Run a server until it is told to stop."""
    from headrace.server.starting import serve as run_server  # noqa: PLC0415 — the other commands do not need it

    run_server(context.args)
