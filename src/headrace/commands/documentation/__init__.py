"""The pages about commands that are written from the table, and what they say of options."""
