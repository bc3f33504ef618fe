"""Redis's byte formats: checksums, compression, RDB values, DUMP payloads.

Bytes in and bytes out. Knows no files, sockets, databases or configuration, and trusts no input: whatever the
bytes are, reading them gives a value or raises `CorruptPayload`, and allocates no more than they can justify.
"""
