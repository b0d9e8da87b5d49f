"""The simulated world of pods: the store with its history, the jobs' controllers, kubelets, and the training."""
