"""`metrics-port`: what Prometheus reads of a server, a slice at a time, so that no client waits for it."""
