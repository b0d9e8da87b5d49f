"""Placement: pure functions that find nodes for gangs and workers in the free room, shared by all systems."""
