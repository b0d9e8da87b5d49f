"""Who leads, told by a Lease."""
