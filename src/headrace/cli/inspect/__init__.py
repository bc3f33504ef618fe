"""`headrace inspect`: a stream drawn as it is stored."""
