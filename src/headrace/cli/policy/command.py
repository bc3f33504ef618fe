"""The declarations of `headrace policy` and its commands."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import AsJson, declared

POLICY_HELP: Final = """Set and show the rules that a server keeps for streams and groups.

For example:

\b
  headrace policy set orders --maxage 7d --refs acked
  headrace policy set orders --group billing --visibility 30s --retry 1s 5m --max-deliveries 5
  headrace policy set --match 'jobs:*' --group workers --create-from 0 --consumer-ttl 1d
  headrace policy get orders --group billing
  headrace policy list
  headrace policy del orders --group billing
"""

policy_app: Final = typer.Typer(help=POLICY_HELP, no_args_is_help=True, rich_markup_mode=None)

_Key = Annotated[
    str | None,
    typer.Argument(help="The stream; or --match.", show_default=False, autocompletion=stream_names),
]
_Match = Annotated[
    str | None, typer.Option("--match", metavar="PATTERN", help="For every key that matches.", show_default=False)
]
_Group = Annotated[str | None, typer.Option("--group", help="The rule of this group.", show_default=False)]


@policy_app.command("set")
@declared
def set_policy(
    *,
    key: _Key = None,
    match: _Match = None,
    group: _Group = None,
    maxlen: Annotated[
        int | None, typer.Option("--maxlen", min=1, help="Keep so many entries.", show_default=False)
    ] = None,
    maxage: Annotated[
        str | None, typer.Option("--maxage", metavar="DURATION", help="Keep entries so long.", show_default=False)
    ] = None,
    maxbytes: Annotated[
        str | None, typer.Option("--maxbytes", metavar="SIZE", help="Keep so many bytes.", show_default=False)
    ] = None,
    refs: Annotated[
        str | None,
        typer.Option(
            "--refs",
            metavar="keepref|delref|acked",
            help="What limits do about groups; acked: remove only what they have finished.",
            show_default=False,
        ),
    ] = None,
    drop_acked: Annotated[
        bool, typer.Option("--drop-acked", help="Delete an entry when every group has acknowledged it.")
    ] = False,
    visibility: Annotated[
        str | None,
        typer.Option(
            "--visibility", metavar="DURATION", help="How long a consumer may hold an entry.", show_default=False
        ),
    ] = None,
    retry: Annotated[
        tuple[str, str] | None,
        typer.Option("--retry", metavar="MIN MAX", help="How long an entry waits after it failed.", show_default=False),
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option("--max-deliveries", min=1, help="After so many, it is a dead letter.", show_default=False),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option("--dead-letter", metavar="STREAM", help="Where those go; KEY:dead.", show_default=False),
    ] = None,
    consumer_ttl: Annotated[
        str | None,
        typer.Option(
            "--consumer-ttl", metavar="DURATION", help="Remove consumers not seen so long.", show_default=False
        ),
    ] = None,
    create_from: Annotated[
        str | None,
        typer.Option("--create-from", metavar="0|$|ID", help="Let readers make a missing group.", show_default=False),
    ] = None,
    server: ServerAddress,
) -> None:
    """Set the rule of a stream, or with --group of one of its groups, in the place of the one it has."""
    from headrace.cli.policy.ruling import Wanted, run_set  # noqa: PLC0415 — only when it runs

    wanted = Wanted(
        maxlen, maxage, maxbytes, refs, drop_acked, visibility, retry, max_deliveries, dead_letter, consumer_ttl,
        create_from,
    )  # fmt: skip
    run_set(server, key, match, group, wanted)


@policy_app.command("get")
@declared
def get_policy(
    *, key: _Key = None, match: _Match = None, group: _Group = None, as_json: AsJson = False, server: ServerAddress
) -> None:
    """Show what is in force for a stream or a group, since when, and what it has done."""
    from headrace.cli.policy.ruling import run_get  # noqa: PLC0415 — only when it runs

    run_get(server, key, match, group, as_json=as_json)


@policy_app.command("del")
@declared
def delete_policy(*, key: _Key = None, match: _Match = None, group: _Group = None, server: ServerAddress) -> None:
    """Take a rule back."""
    from headrace.cli.policy.ruling import run_delete  # noqa: PLC0415 — only when it runs

    run_delete(server, key, match, group)


@policy_app.command("list")
@declared
def list_policies(
    *,
    pattern: Annotated[
        str | None, typer.Argument(help="Only of keys and patterns that match; all.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """List all rules."""
    from headrace.cli.policy.ruling import run_list  # noqa: PLC0415 — only when it runs

    run_list(server, pattern, as_json=as_json)
