"""Reports: each module turns one frozen value into text; nothing here reads a file, a clock or a setting."""
