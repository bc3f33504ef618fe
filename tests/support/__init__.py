"""What tests share. Tests import from here and never from one another."""
