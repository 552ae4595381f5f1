"""Everything that touches our own disk."""
