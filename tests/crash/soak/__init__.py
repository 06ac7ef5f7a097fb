"""Everything at once, for an hour: `make crash SUITE=soak`."""
