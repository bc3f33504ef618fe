"""What each command means, on the engine; one module a family, one table of all.

Importing `headrace.commands.table` gives the table empty; `headrace.commands.all` fills it.
"""
