"""Existing rows, read while they are changed and while workers are killed: `make crash SUITE=existing`."""
