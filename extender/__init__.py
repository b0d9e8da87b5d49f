"""The extender: connects kube-scheduler, the API server and people to the policy; holds no scheduling rule."""
