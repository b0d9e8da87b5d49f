"""A small cluster in memory: an API subset, an operator and a kubelet out of the simulated world, a scheduler loop.

For the demo and for tests in virtual time. It is no claim about kube-scheduler: what it imitates is listed in
``tests/e2e/test_imitation.py`` and tested there against the real one as well.
"""
