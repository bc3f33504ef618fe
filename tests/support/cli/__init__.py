"""What tests share about the `headrace` command, run as a person or a shell runs it."""
