"""What the bytes of a stream are for: nodes, payloads, the tree that leads to them. For people who look inside."""
