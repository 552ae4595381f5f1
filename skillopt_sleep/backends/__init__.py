"""Backends: one module per agent CLI or API that answers prompts, under the name that settings give the backend."""
