"""`headrace dead`: looks at dead letters, puts them back, and removes them."""
