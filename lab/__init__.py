"""Studies: the simulator, the papers' experiments, sweeps and comparisons, and the cluster in memory with its demo."""
