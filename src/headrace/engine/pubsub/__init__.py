"""What clients hear without asking: channels, events of keys, every command, keys that changed."""
