"""Backends: one module per agent CLI or API that answers prompts; the file name is the name of the backend."""
