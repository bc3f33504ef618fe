"""`headrace console`: a web page for streams, served by a process of its own that is a client of the server."""
