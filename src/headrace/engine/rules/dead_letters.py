"""The form of a dead letter: an entry that its group gave up, as the dead-letter stream holds it.

    <its own fields, unchanged, in their order>
    headrace-stream   headrace-id   headrace-group   headrace-consumer   headrace-deliveries
    headrace-first-delivery   headrace-last-delivery   headrace-reason

The eight fields behind its own say where it came from. Times are Unix milliseconds, or 0 if unknown; the
consumer is the last one that held the entry, empty where nobody did. An entry may have fields of these names itself,
such as one that was dead before and was read from there: only the last eight pairs are the letter's.
"""

from typing import Final, NamedTuple

STREAM: Final = b"headrace-stream"
ID: Final = b"headrace-id"
GROUP: Final = b"headrace-group"
CONSUMER: Final = b"headrace-consumer"
DELIVERIES: Final = b"headrace-deliveries"
FIRST_DELIVERY: Final = b"headrace-first-delivery"
LAST_DELIVERY: Final = b"headrace-last-delivery"
REASON: Final = b"headrace-reason"

NAMES: Final = (STREAM, ID, GROUP, CONSUMER, DELIVERIES, FIRST_DELIVERY, LAST_DELIVERY, REASON)

TOO_MANY_DELIVERIES: Final = b"deliveries"
FATAL: Final = b"fatal"

_SUFFIX: Final = b":dead"


class Origin(NamedTuple):
    """Where a dead letter came from, and why it is dead."""

    stream: bytes
    id: bytes
    group: bytes
    consumer: bytes
    deliveries: int
    first_delivery_ms: int
    last_delivery_ms: int
    reason: bytes

    def fields(self) -> list[bytes]:
        """Return names and values, one behind the other, as they follow the entry's own."""
        values = (
            self.stream,
            self.id,
            self.group,
            self.consumer,
            b"%d" % self.deliveries,
            b"%d" % self.first_delivery_ms,
            b"%d" % self.last_delivery_ms,
            self.reason,
        )
        return [word for pair in zip(NAMES, values, strict=True) for word in pair]


def default_stream(key: bytes) -> bytes:
    """Return the stream that takes the dead letters of a stream where no rule names another."""
    return key + _SUFFIX


def split_letter(fields: list[bytes]) -> tuple[list[bytes], Origin] | None:
    """Split the fields of an entry into its own and where it came from; None where it is no dead letter."""
    added = fields[-2 * len(NAMES) :]
    if tuple(added[::2]) != NAMES:
        return None
    stream, entry_id, group, consumer, *numbers, reason = added[1::2]
    try:
        deliveries, first_ms, last_ms = (int(number) for number in numbers)
    except ValueError:
        return None
    own = fields[: -2 * len(NAMES)]
    return own, Origin(stream, entry_id, group, consumer, deliveries, first_ms, last_ms, reason)
