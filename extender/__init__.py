"""Acts: speaks to kube-scheduler, the API server and people; holds no scheduling rule."""
