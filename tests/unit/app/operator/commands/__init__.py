"""Commands of `python -m app`."""
