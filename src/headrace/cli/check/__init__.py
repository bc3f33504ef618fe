"""`headrace check`."""
