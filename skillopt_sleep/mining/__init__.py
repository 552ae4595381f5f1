"""From sessions to tasks: episodes, miners, proofs, recurrences and insights."""
