"""The data directory: journal, snapshots, recovery. What was acknowledged is here, whatever happens to the process."""
