"""Reports: each module turns one frozen value into text; no module here reads a file, a clock or a setting."""
