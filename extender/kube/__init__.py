"""The rooms that know the Kubernetes API: talk to it (`client`), follow it (`reflector`), read its objects (`translate`)."""
