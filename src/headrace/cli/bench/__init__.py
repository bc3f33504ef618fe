"""`headrace bench`."""
