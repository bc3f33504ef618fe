"""Streams, groups, consumers and messages as Python objects, whether the database is in this process or far away."""
