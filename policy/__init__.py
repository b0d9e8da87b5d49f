"""Decides: cluster model, placement, the systems, the answers, the simulator. No I/O, no clock, no chance."""
