"""Seeded simulation of the real service in virtual time, with faults and an independent check of invariants."""
