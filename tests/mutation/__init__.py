"""Measure whether the tests notice small changes to the code, made by a mutation tool."""
