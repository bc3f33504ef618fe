"""Clients that wait: for what, until when, and what happens then."""
