"""Has the ledger, which is the only holder of state, its rules and its journal."""
