"""When a night is due, the daemon, and the schedulers of each operating system."""
