"""Decides: cluster model, placement, the systems, the answers. No I/O, no clock, no chance."""
