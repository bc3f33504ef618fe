"""`metrics-port`: the figures that Prometheus reads, taken a slice at a time, so that no client waits."""
