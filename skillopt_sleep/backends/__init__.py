"""Ways to reach a model, one agent CLI or API per file, transport only; the file name is the backend's name."""
