"""Every HTTP route: verbs of kube-scheduler, REST for people, progress of training code, what-if."""
