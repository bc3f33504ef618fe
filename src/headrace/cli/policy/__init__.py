"""`headrace policy`: the rules of streams and groups."""
