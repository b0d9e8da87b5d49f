"""The laboratory: simulators, the papers' experiments, sweeps and comparisons, and the embedded cluster."""
