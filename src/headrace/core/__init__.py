"""The stored form: stream IDs, listpacks, the rax, streams, consumer groups.

Compiled. Knows no sockets, files, commands, clocks or configuration: bytes, times and limits come in as arguments.
One thread owns a structure; nothing here locks.
"""
