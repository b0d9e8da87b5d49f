"""The controller process: writes to the API server what the extender wants to be true, and informs people by Events."""
