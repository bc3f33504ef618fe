"""Scripts and functions: Lua, its sandbox, and the commands that it runs."""
