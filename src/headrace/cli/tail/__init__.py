"""`headrace tail`: the end of streams, and what comes behind it."""
