"""A small cluster in memory: part of an API server, a simulated operator and kubelets, and a scheduling loop.

The demo, the pod-level simulator and tests run on it in virtual time. The loop imitates only part of kube-scheduler:
``tests/e2e/test_imitation.py`` lists what is imitated, and runs each case against the real kube-scheduler too.
"""
