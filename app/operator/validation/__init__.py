"""Comparisons that an operator asks for while the worker runs."""
