"""The benchmarks, each a command with a module of its own, and the modules that they share."""
