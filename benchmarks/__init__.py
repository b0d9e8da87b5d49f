"""The benchmarks; each module is one command."""
