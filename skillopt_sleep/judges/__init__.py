"""One module per way of scoring a rollout; the file name is the name of the judge."""
