"""What gangs wait for, for how long, and what follows when that time is over."""
