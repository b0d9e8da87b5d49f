"""Seeded simulation of the real service in virtual time, with faults and an independent check of invariants.

A run has a storm, in which faults occur, and then a calm without faults. Rules S1 to S18 (safety) hold at all times,
rules L1 to L11 (liveness) in the calm; the table in docs/reliability.md says what each of them demands.
"""
