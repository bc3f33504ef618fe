"""The settings: what there is, what may be said, and what is told of a change."""
