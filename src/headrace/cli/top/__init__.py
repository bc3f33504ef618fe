"""`headrace top`: the streams of a server, watched live."""
