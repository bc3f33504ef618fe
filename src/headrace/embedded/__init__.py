"""The engine inside a Python process, for `headrace.api` and for redis-py clients without a socket."""
