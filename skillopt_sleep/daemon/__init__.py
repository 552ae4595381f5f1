"""Running by itself, night after night."""
