"""The cluster, its jobs and their plans as frozen values, which all other rooms of policy/ use."""
