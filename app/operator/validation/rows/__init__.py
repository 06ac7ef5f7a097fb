"""Validation: the source's rows compared with the folded topics, while the worker runs."""
