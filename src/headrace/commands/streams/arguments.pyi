from typing import Final

INVALID_ID: Final[bytes]
