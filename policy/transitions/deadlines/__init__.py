"""Deadlines: what gangs wait for, for how long, and what is done when that time is over."""
