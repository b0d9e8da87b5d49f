"""What decides: the cluster as values, placement, the systems, the answers. It has no I/O, no clock and no chance."""
