"""Turns sessions into tasks: episodes, the two miners, merging, task files, and what sessions show without a model."""
