"""History on disk: the segments of a data directory."""
