"""Ways to score a rollout, one per file; the file name is the judge's name."""
