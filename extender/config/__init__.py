"""Has the settings, each with its unit and bounds, and reads their values from file, environment and command line."""
