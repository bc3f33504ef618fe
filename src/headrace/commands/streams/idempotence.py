"""The idempotent ID of a message that its producer did not name: a digest of its fields, whatever their order."""

from struct import pack

from xxhash import xxh3_128_intdigest

_LOW = 2**64 - 1


def automatic_id(fields: list[bytes]) -> bytes:
    """Return 16 bytes that names and values in turn decide, but not the order of the pairs; the bytes are Redis's."""
    sum_low = sum_high = xor_low = xor_high = 0
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        digest = xxh3_128_intdigest(name + pack("<Q", len(name)) + value)
        low, high = digest & _LOW, digest >> 64
        sum_low = sum_low + low & _LOW
        sum_high = sum_high + high & _LOW
        xor_low ^= low
        xor_high ^= high
    return pack("<QQ", sum_low ^ _rotate_left(xor_high), sum_high ^ _rotate_left(xor_low))


def _rotate_left(value: int) -> int:
    return (value << 1 | value >> 63) & _LOW
