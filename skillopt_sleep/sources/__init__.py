"""One module for each transcript format; a module has the name under which its source is registered."""
