"""A durable stream store that speaks the Redis Streams protocol."""

from importlib.metadata import version

__version__ = version("headrace")
