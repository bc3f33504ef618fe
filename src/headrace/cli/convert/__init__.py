"""`headrace convert`: data from one form on disk to another."""
