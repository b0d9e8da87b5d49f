"""Run the real kubectl and kohort with the same kubeconfigs and environment, and record the requests of both."""
