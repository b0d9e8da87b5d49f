"""Measure mutation coverage: make small changes (mutations) to the code with mutmut's operators, and see whether tests
fail.
"""
