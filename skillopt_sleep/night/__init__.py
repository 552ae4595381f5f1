"""The stages of a night; ``night.py`` lists them in order."""
