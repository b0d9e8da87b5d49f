"""Another policy asked about the recorded journal, in a process of its own: for the page and REST."""
