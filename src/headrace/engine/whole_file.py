"""Replacing a file so that after a crash it has its old content or its new one, and never a part of either."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a temporary file beside the path, sync it, and rename it; an error leaves the old file as it was."""
    with NamedTemporaryFile("wb", dir=path.parent, prefix=path.name, delete=False) as draft:
        try:
            draft.write(content)
            draft.flush()
            os.fchmod(draft.fileno(), mode)
            os.fsync(draft.fileno())
            Path(draft.name).replace(path)
        except OSError:
            Path(draft.name).unlink(missing_ok=True)
            raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
