"""The ledger, which is the only holder of state, and its journal."""
