"""The controller: reads what the extender wants to be true and writes it to the API server; tells people by Events."""
