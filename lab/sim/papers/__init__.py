"""The papers' experiments: what each paper claims, and what our runs must reach; a seed determines the result."""
