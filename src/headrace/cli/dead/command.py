"""The declarations of `headrace dead` and its commands."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import AsJson, Yes, declared

DEAD_HELP: Final = """Look at dead letters, put them back, or remove them.

For example:

\b
  headrace dead list
  headrace dead show orders:dead
  headrace dead show orders:dead 1526919030474-55
  headrace dead redrive orders:dead --where headrace-reason=fatal --to orders:repaired
  headrace dead redrive orders:dead 1526919030474-55
  headrace dead redrive orders:dead --rate 50
  headrace dead drop orders:dead --where customer=17
"""

dead_app: Final = typer.Typer(help=DEAD_HELP, no_args_is_help=True, rich_markup_mode=None)

_Key = Annotated[str, typer.Argument(help="The dead-letter stream.", show_default=False, autocompletion=stream_names)]
_Where = Annotated[
    str | None,
    typer.Option("--where", metavar="FIELD=VALUE", help="Only those with this value.", show_default=False),
]


def _pair(where: str | None) -> tuple[str, str] | None:
    if where is None:
        return None
    field, sign, value = where.partition("=")
    if not sign:
        raise typer.BadParameter(f"{where!r} is no condition: write --where FIELD=VALUE.")
    return field, value


@dead_app.command("list")
@declared
def list_streams(*, as_json: AsJson = False, server: ServerAddress) -> None:
    """List the streams that hold dead letters."""
    from headrace.cli.dead.looking import run_list  # noqa: PLC0415 — only when it runs

    run_list(server, as_json=as_json)


@dead_app.command()
@declared
def show(
    *,
    key: _Key,
    id: Annotated[str | None, typer.Argument(help="One letter, with all its fields.", show_default=False)] = None,
    where: _Where = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="No more than this.")] = 20,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Show the dead letters of a stream, the newest last, or one of them completely."""
    from headrace.cli.dead.looking import run_show  # noqa: PLC0415 — only when it runs

    run_show(server, key, id, where=_pair(where), count=count, as_json=as_json)


@dead_app.command()
@declared
def redrive(
    *,
    key: _Key,
    ids: Annotated[list[str] | None, typer.Argument(help="These letters; else all.", show_default=False)] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Into this stream; else where each came from.", show_default=False)
    ] = None,
    where: _Where = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="No more than this.", show_default=False)
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=1, help="So many a second; the server goes on by itself.", show_default=False),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show how far one with --rate is.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the one with a rate.")] = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Put dead letters back, without what was added to them."""
    from headrace.cli.dead.changing import run_end, run_redrive, run_status  # noqa: PLC0415 — only when it runs

    if status or end:
        if status == end or ids or any(option is not None for option in (to, where, count, rate)):
            raise typer.BadParameter("--status and --end stand alone.")
        (run_status if status else run_end)(server, key, as_json=as_json)
        return
    if ids and any(option is not None for option in (where, count, rate)):
        raise typer.BadParameter("Letters that are named go at once: leave out --where, --count and --rate.")
    run_redrive(server, key, ids or [], to=to, where=_pair(where), count=count, rate=rate, as_json=as_json)


@dead_app.command()
@declared
def drop(
    *,
    key: _Key,
    ids: Annotated[list[str] | None, typer.Argument(help="These letters; else all.", show_default=False)] = None,
    where: _Where = None,
    yes: Yes = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Remove dead letters for good: some, or all that are there now."""
    from headrace.cli.dead.changing import run_drop  # noqa: PLC0415 — only when it runs

    if ids and where is not None:
        raise typer.BadParameter("Say which: either IDs, or --where.")
    run_drop(server, key, ids or [], where=_pair(where), yes=yes, as_json=as_json)
