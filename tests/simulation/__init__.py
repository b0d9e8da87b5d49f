"""Seeded simulation of the real service in virtual time, with faults and an independent check of invariants.

Rules S1 to S18 (safety) hold at all times, rules L1 to L11 (liveness) in the calm after the last fault; the table in
docs/reliability.md says what each of them demands.
"""
