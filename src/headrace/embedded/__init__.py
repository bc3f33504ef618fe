"""The engine inside a Python process: streams that feel like Python, and redis-py clients without a socket."""
