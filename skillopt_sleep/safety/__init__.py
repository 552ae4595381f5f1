"""Redaction of secrets, the guard that holds harmful rules back, and who receives prompts."""
