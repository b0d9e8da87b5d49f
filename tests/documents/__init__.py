"""The pages of docs/reference are made from the code: ``python -m tests.documents`` writes them, a test compares."""
