"""Environments written to the published adapter signatures of the reference; only the import is another one."""
