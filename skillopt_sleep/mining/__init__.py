"""Turns sessions into tasks and moments, with and without a model, and finds what users often request and correct."""
