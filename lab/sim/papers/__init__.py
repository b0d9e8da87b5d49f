"""The papers' experiments: what each claims, and what our runs must reach. Pure: a seed is a result."""
