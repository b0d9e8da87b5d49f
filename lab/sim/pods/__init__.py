"""Pod by pod in virtual time: a world with operator, kubelets and kube-scheduler, and Kohort's verbs and controller."""
