"""Decides when a night is to start, runs the daemon, and lets the operating system's scheduler start nights."""
