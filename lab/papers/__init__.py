"""The papers' experiments: what each paper claims, and what this project's runs must reach, for a given seed."""
