"""Databases and keys, expiry, clients, transactions, waiting readers, the effect log: what commands work on.

Knows no sockets and no files. A host (the server, or a Python process) gives it requests and takes the replies.
"""
