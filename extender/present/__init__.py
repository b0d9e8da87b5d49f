"""Makes views of a snapshot, a plan and the journal: pure functions, no I/O; ``now`` is an argument."""
