"""What a former master has done and its successor has never got: counted before it is dropped.

    our history     ──────────────┬─────── our offset
    the successor's               └─── it branched off here, as its lineage says

The successor's data replaces ours, so that what is behind the branch is lost. Our append-only files still have it.
"""

from typing import Final

from headrace.replication.file_backlog import FileBacklog, FileBacklogReader, NotKept
from headrace.replication.master_stream import BadStream, MasterStream
from headrace.storage.append_files import AppendFiles

_READ: Final = 1 << 20  # bytes at once


def count_behind(files: AppendFiles, offset: int) -> int | None:
    """Count the effects that the append-only files have behind an offset; None where they do not have all."""
    reader = FileBacklogReader(FileBacklog(files), offset)
    stream = MasterStream()
    count = 0
    try:
        while text := reader.read(_READ):
            stream.take(text)
            while (argv := stream.next()) is not None:
                count += argv[0].upper() != b"SELECT"
            stream.finish(0)
    except (NotKept, BadStream):
        return None
    return count
