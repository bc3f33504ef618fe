"""Durations and sizes of rules."""

import pytest

from headrace.engine.errors import CommandError
from headrace.engine.rules.quantities import duration_ms, size_bytes


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (b"1", 1),
        (b"30000", 30_000),
        (b"500ms", 500),
        (b"30s", 30_000),
        (b"30S", 30_000),
        (b"5m", 300_000),
        (b"1h30m", 5_400_000),
        (b"7d", 604_800_000),
        (b"2w", 1_209_600_000),
    ],
)
def test_a_duration_is_milliseconds_or_has_units(text: bytes, length: int) -> None:
    assert duration_ms(text) == length


@pytest.mark.parametrize("text", [b"", b"s", b"30x", b"-1", b"1.5s", b"0", b"0s", b"30 s", b"9" * 300, b"\xff"])
def test_what_is_no_duration_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match="is no duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [(b"1", 1), (b"4096", 4096), (b"64kb", 65_536), (b"64k", 64_000), (b"512MB", 536_870_912), (b"2gb", 2 * 1024**3)],
)
def test_a_size_is_bytes_or_has_units(text: bytes, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", [b"", b"mb", b"1tb", b"-1", b"0", b"1.5mb", b"9" * 19 + b"gb", b"9" * 300])
def test_what_is_no_size_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match="is no size"):
        size_bytes(text)
