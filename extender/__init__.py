"""Has the extender, which connects kube-scheduler, the API server and users to the policy, and no scheduling rule."""
