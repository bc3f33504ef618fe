"""What can go wrong with the stored form, one small exception for each mistake."""


class HeadraceError(Exception):
    """Anything that Headrace refuses; every exception of ours is one."""


class InvalidStreamID(HeadraceError, ValueError):
    """The text is no stream ID in the place where it stands."""


class InvalidInterval(HeadraceError, ValueError):
    """An exclusive bound has no neighbour: after the greatest ID, or before the smallest."""


class StreamIDTooSmall(HeadraceError, ValueError):
    """The ID is 0-0, or not greater than the last one that the stream generated."""


class StreamExhausted(HeadraceError):
    """The stream has used the greatest possible ID; nothing can follow it."""


class EntryTooLarge(HeadraceError, ValueError):
    """The fields and values of one entry, or one listpack, would exceed 2^30 bytes."""


class InvalidFields(HeadraceError, ValueError):
    """An entry needs at least one field, and a value for each."""


class CorruptListpack(HeadraceError, ValueError):
    """The bytes are no listpack, or no stream node."""


class CorruptStream(HeadraceError, ValueError):
    """Each part is well-formed, but together they are no stream: counters, order or owners contradict each other."""


class CorruptHyperLogLog(HeadraceError, ValueError):
    """The bytes are not those of 16,384 registers."""


class GroupExists(HeadraceError, KeyError):
    """The stream already has a consumer group of that name."""


class InvalidStreamState(HeadraceError, ValueError):
    """The last ID or counters asked for contradict what the stream holds."""


class ColdReadError(HeadraceError):
    """Entries that are on disk cannot be read: the disk refuses, or the file is damaged."""
