"""A small cluster in memory: a subset of the API server, the simulated operator and kubelet, and a scheduling loop.

It serves the demo and tests in virtual time, and does not claim to be kube-scheduler: ``tests/e2e/test_imitation.py``
lists what is imitated, and runs each case against the real kube-scheduler too.
"""
