"""`headrace load` and `headrace export`: between files and streams."""
