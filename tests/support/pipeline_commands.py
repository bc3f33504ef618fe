"""Runs commands of `headrace pipeline` on one Spark, as each would start it for itself.

    python pipeline_commands.py master < [["archive", "s:*", "lake"], …]

Prints for each command its exit code and what it said, as JSON.
"""

import json
import sys

from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.pipelines.session import spark_session


def main(master: str) -> None:
    """Run the commands of the standard input."""
    commands = json.load(sys.stdin)
    with spark_session(master):
        results = [CliRunner().invoke(app, ["pipeline", *words]) for words in commands]
    print(json.dumps([(result.exit_code, result.output or repr(result.exception)) for result in results]))


if __name__ == "__main__":
    main(sys.argv[1])
