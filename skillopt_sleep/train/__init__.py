"""The same step over a dataset."""
