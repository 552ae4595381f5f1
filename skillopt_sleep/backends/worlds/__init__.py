"""The simulated agent's world: what it knows, as data, and how it reads and answers a prompt, as pure rules."""
