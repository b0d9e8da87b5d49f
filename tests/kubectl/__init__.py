"""Runs the real kubectl and kohort on the same kubeconfigs and environment, and records who was asked, how, as whom."""
