"""The rules of a queue: how they are said, kept as data, and what they decide."""
