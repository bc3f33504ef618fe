"""What can be wrong with bytes that claim to be Redis's."""


class CorruptPayload(ValueError):
    """The bytes are not what their format says; the message names the offset and what was expected there."""


class UnsupportedVersion(CorruptPayload):
    """The payload was written by a newer RDB version than the reader accepts."""


class WrongChecksum(CorruptPayload):
    """The payload's checksum is missing, or is not that of its bytes."""


class EmptyValue(CorruptPayload):
    """A collection that holds nothing, which no key can have; it was read to its end, and what follows is sound."""
