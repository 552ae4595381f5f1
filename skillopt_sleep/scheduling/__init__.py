"""Decides when a night is due, runs the daemon, and installs a schedule with the operating system's scheduler."""
