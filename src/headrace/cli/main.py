"""`headrace`, from the command line: runs a command, and makes one sentence of what is wrong.

A server starts without importing the declarations of commands. It is ready after 0.23 s of processor time instead of
0.35 s: the difference is typer, and pydantic, which typer imports where it is installed.
"""

import os
import sys

from headrace.cli.standard_streams import guarded
from headrace.core.errors import HeadraceError

_EXTRAS = {"redis": "cli", "rich": "cli", "typer": "cli", "pyspark": "spark", "pyarrow": "spark", "pandas": "spark"}


def main() -> None:
    """Run the command; what is wrong with it is one sentence."""
    try:
        with guarded():
            _run(sys.argv[1:])
    except HeadraceError as error:
        _refuse(str(error))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        _refuse(f"This command needs {error.name}, which is not installed: pip install 'headrace[{extra}]' brings it.")


def _refuse(sentence: str) -> None:
    with guarded():
        print(f"headrace: {sentence}", file=sys.stderr)  # noqa: T201
    sys.exit(1)


def _run(arguments: list[str]) -> None:
    plain = arguments[:1] == ["serve"] and "--help" not in arguments and "--" not in arguments
    if plain and "_HEADRACE_COMPLETE" not in os.environ:  # by which shells ask what could be typed next
        from headrace.server import garbage  # noqa: PLC0415

        garbage.postpone()
        from headrace.server.starting import serve  # noqa: PLC0415

        serve(arguments[1:])
    else:
        from headrace.cli.app import app  # noqa: PLC0415

        app(prog_name="headrace")


if __name__ == "__main__":
    main()
