"""Databases on a server: connections of our own, which speak RESP3, reconnect, and follow a failover."""
