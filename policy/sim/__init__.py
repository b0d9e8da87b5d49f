"""The discrete-event world: a cluster in memory and virtual time around the very code that decides live.

``world`` holds what API server, training operator and kubelets would hold and do; ``run`` drives ``policy.step`` and
``policy.desired`` against it. Chance is allowed in this room only, and only with the seed as an argument.
"""
