"""The pages of docs/reference are generated from the code: ``python -m tests.documents`` writes them, a test
compares.
"""
