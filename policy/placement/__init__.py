"""Where a gang goes: pure functions of free room and demand, shared by every system."""
