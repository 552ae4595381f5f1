"""One module per transcript format; the module's name is the name of the source."""
