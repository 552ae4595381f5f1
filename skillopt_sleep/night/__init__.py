"""The stages of a night; `night.py` names them in order."""
