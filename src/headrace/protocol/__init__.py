"""RESP2 and RESP3: requests in, replies out. Compiled; knows bytes, no sockets and no commands."""
