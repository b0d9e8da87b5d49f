"""Pairs of a pod and a node, drawn at random, on which Kohort's verdict is compared with kube-scheduler's plugins."""
