"""Scripts and functions."""

from headrace.commands.scripting import functions, scripts

__all__ = ["functions", "scripts"]
