"""Databases and keys, expiry, clients, transactions, waiting readers, the effect log: what commands work on.

Knows no sockets and no files. A host (the server, or a Python process) gives it requests and takes the replies.
"""

from typing import Final

# Whose behaviour this is; clients decide by it what they may ask for.
REDIS_VERSION: Final = b"8.10.0"
