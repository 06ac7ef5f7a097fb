"""One micro-batch: its contents checked, the last change of each key, applied to the tables."""
