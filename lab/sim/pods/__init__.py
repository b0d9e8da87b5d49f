"""The pod-level simulator: a world with operator, kubelets and kube-scheduler, and Kohort's verbs and controller."""
