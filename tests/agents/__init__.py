"""The contract with the real agent CLIs: `bash scripts/test-agents`."""
