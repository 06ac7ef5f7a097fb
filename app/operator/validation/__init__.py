"""Validation: the source's rows against the folded topics, while the worker runs."""
