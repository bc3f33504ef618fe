"""`headrace group`: looks at consumer groups, and changes them."""
