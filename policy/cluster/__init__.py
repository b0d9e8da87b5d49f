"""The cluster as frozen values, of which every other room of policy/ speaks."""
