"""Standard output and standard error as every command has them: a reader that leaves ends the command, quietly.

    reader of stdout gone       the command exits with status 141, as shells report SIGPIPE, and prints nothing
    device of stdout full       one sentence, and status 1
    stdout, stderr closed       from the start (`>&-`): what is written is dropped
    stderr gone or full         messages are dropped

A failure is raised where a command prints, and again by the last flush, if something was still in a buffer. After that
flush nothing is written any more. The interpreter flushes once more when it ends, and then finds no error to print.

SIGPIPE stays ignored, because it would also end a command whose server closes the connection.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from headrace.cli.errors import CommandFailed

READER_LEFT: Final = 141


@contextmanager
def guarded() -> Iterator[None]:
    """Guard what is printed in the block; at its end everything printed has left."""
    _open_closed()
    former = sys.stdout, sys.stderr
    output, errors = _StandardOutput(sys.stdout.fileno()), _StandardError(sys.stderr.fileno())
    sys.stdout, sys.stderr = output.text(sys.stdout), errors.text(sys.stderr)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    finally:
        output.ended = True
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = former


def _open_closed() -> None:
    """Give descriptors that were closed from the start to /dev/null: a file or socket opened later would get them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


class _Guarded(io.FileIO):
    """A descriptor below a text stream."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)

    def text(self, like: TextIO) -> TextIO:
        """Make a text stream that writes as another does."""
        unbuffered = bool(getattr(like, "write_through", False))
        return io.TextIOWrapper(
            self if unbuffered else io.BufferedWriter(self),
            encoding=like.encoding,
            errors=like.errors,
            line_buffering=bool(getattr(like, "line_buffering", False)),
            write_through=unbuffered,
        )


class _StandardOutput(_Guarded):
    """See the module."""

    ended = False  # what is written from now on is dropped

    def write(self, data: Any) -> int:
        """Write, or raise what ends the command."""
        if self.ended:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            raise SystemExit(READER_LEFT) from None
        except OSError as error:
            raise CommandFailed(f"Standard output cannot be written: {error.strerror}.") from None


class _StandardError(_Guarded):
    """See the module."""

    def write(self, data: Any) -> int:
        """Write what can be written."""
        try:
            return super().write(data)
        except OSError:
            return len(data)
