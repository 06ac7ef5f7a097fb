"""Everything at once, for an hour: `make soak`."""
