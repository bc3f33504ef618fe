"""The version of Redis whose behaviour this is; clients decide by it what they may ask for."""

from typing import Final

REDIS_VERSION: Final = b"8.10.0"
