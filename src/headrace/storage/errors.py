"""What can be wrong with a data directory; every text is one sentence or two for a person."""

import os

from headrace.api.errors import CannotOpen


class StorageError(CannotOpen):
    """The data directory cannot be used as it is, or the disk refuses; nothing in it was changed by what failed."""


class DirectoryInUse(StorageError):
    """Another process works with the directory."""


class BadManifest(StorageError):
    """The manifest of the append-only files breaks one of its rules."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line
        self.problem = problem


class CannotRecover(StorageError):
    """A file is missing, damaged or not understood, and what is in it would be lost if the server started without."""


class FilesUnknown(CannotRecover):
    """Nothing says which append-only files make the data; `problem` is what is wrong with the manifest."""

    def __init__(self, sentence: str, problem: str) -> None:
        super().__init__(sentence)
        self.problem = problem


class CannotCheck(StorageError):
    """There is nothing to check, or no place for the repaired copy."""


def fate_unknown(error: int) -> bytes:
    """Tell a client that the disk refused its write."""
    return b"MISCONF The disk refused what was written (%s): whether this write lasts is not known." % (
        os.strerror(error).encode()
    )
