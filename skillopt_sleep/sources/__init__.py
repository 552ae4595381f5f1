"""Session files of coding agents, one transcript format per file; the file name is the source's name."""
