"""Every HTTP route: the verbs of kube-scheduler, REST for people, the progress of training code, and what-if."""
