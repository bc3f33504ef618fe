"""The server: listeners, connections, configuration files, and the clock's chores, around one engine."""
