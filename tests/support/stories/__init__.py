"""What the stories share: programs and servers that are killed and come back, a clock that is set, and ledgers."""
