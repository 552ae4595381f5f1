"""One module for each agent's format of session files; the module's name is the name of the source."""
