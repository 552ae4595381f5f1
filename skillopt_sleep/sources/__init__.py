"""One module per transcript format; the file name is the name of the source."""
