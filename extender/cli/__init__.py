"""The command line: thin commands over REST, the service, the controller and the demo."""
