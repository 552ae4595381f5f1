"""Redaction of secrets, the guard against harmful rules, and the receivers of prompts."""
