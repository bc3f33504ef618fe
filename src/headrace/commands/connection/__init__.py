"""Commands of and about connections: who a client is, what it subscribes to, and its transactions."""

from headrace.commands.connection import client, connection, pubsub, transactions

__all__ = ["client", "connection", "pubsub", "transactions"]
