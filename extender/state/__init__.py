"""The ledger and its journal: the one place that holds state, and how it is written down."""
