"""The pod-level simulator: operator, kubelets and kube-scheduler, with Kohort's verbs and controller."""
