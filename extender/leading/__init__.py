"""Which replica leads, as a Lease states it."""
