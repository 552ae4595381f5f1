"""Measurements that anyone can repeat: `bash scripts/bench NAME`."""
