"""How a command is declared: its row in the table, its syntax, what clients are told of its keys, and HELP."""
