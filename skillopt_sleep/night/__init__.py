"""The stages of a night, named in night.py."""
