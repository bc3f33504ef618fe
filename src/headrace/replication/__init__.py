"""More than one machine: followers, the link to a master, and which of both this server is."""
