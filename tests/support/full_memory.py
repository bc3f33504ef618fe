"""A moment in which there is no memory for the structures of core and protocol."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.core.memory import fail_after, fail_never


@contextmanager
def full_memory() -> Iterator[None]:
    """Refuse every allocation of the block, which must then raise MemoryError."""
    fail_after(0)
    try:
        with pytest.raises(MemoryError):
            yield
    finally:
        fail_never()
