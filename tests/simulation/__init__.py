"""Seeded simulation of the real parts in virtual time, with faults and an independent witness."""
