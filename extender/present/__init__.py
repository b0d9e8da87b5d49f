"""Makes views of a snapshot, a plan and the journal. The functions are pure: no I/O, and ``now`` is an argument."""
