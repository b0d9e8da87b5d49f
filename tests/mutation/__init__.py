"""Whether the tests notice small changes to the code that a mutation tool makes."""
