"""What each command means, on the engine; one package a group, one module a family, one table of all.

Importing `headrace.commands.declaration.table` gives the table empty; `headrace.commands.all` fills it.
"""
