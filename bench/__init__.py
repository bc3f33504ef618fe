"""Measurements of Headrace. `make bench` runs them; nothing here is a test, and no figure makes a build fail."""
