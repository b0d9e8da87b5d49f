"""Generators of the pages of docs/reference: ``python -m tests.documents`` writes them, and a test compares them."""
