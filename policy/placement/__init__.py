"""Where a gang goes: pure functions of free room and demand, which all systems share."""
