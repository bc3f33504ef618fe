"""`headrace top`: the streams of a server as they live."""
