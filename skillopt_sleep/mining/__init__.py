"""Turns sessions into tasks: episodes, the two miners, merging, task files, and findings made without a model."""
