"""What the simulated agent knows, as data, and how it answers, as pure rules."""
