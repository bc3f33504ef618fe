"""Lives of a database in this process, whose disk is preloaded and refuses: one life for each number that is given.

    python -m support.storage.refused_in_process CONTROLS BELOW ERROR COUNT FIRST...

FIRST is the number of the first operation that is refused, COUNT how many are; 0 prints how many there are to refuse.
"""

import sys
from errno import errorcode
from pathlib import Path
from typing import Any

import headrace
from headrace.api.database import Database
from headrace.core.errors import HeadraceError
from support.storage.faulty_disk import Controls
from support.storage.refused_program import Program

MOST_STARTS = 60


def opened(directory: Path, program: Program) -> Database:
    """Open the database, again where the disk refuses that."""
    for _ in range(MOST_STARTS):
        try:
            return headrace.open(directory)
        except HeadraceError as refusal:
            program.note_refusal(f"open: {refusal}")
    raise AssertionError(program.refusals[-1])


def live(controls: Controls, directory: Path, first: int, times: int, error: int) -> int:
    """Live once; return how many operations there were."""
    program = Program(error)
    controls.refuse(first, times, error)
    database = opened(directory, program)

    def execute(*words: Any) -> Any:
        return database.execute(*words)

    program.run(execute)
    if times > 1:
        controls.accept()
    program.await_service(execute)
    database.close()
    database = opened(directory, program)
    operations = controls.get("operations")
    controls.accept()
    program.assert_kept(execute)
    database.close()
    return operations


def main() -> None:
    controls, below = Controls(Path(sys.argv[1])), Path(sys.argv[2])
    error, times, *firsts = map(int, sys.argv[3:])
    for first in firsts:
        try:
            operations = live(controls, below / f"life{first}", first, times, error)
        except BaseException as failure:
            failure.add_note(f"operation {first} and {times - 1} more were refused with {errorcode[error]}")
            raise
        print(operations)


if __name__ == "__main__":
    main()
