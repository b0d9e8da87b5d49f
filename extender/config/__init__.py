"""Has the settings: each one with its unit and bounds, where its value comes from, and how a settings file is read."""
