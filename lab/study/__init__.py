"""The acting side of experiments: processes, files, tables and figures around the pure simulator of lab/sim."""
