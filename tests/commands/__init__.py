"""Run `make test` and `make full`: their steps, the records that they keep between runs, and how tests are spread and
retried.
"""
