"""What tests share about repeating effects: any command, the whole state, and histories with restarts."""
