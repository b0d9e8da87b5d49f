"""kube-scheduler's interfaces: the extender protocol, its configuration file, and faults in it that would break a
gang.
"""
