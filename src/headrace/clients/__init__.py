"""Clients of servers that a url names."""
