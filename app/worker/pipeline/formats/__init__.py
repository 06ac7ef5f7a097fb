"""Record formats: how changes, statements and transaction markers are written as keys, values and headers."""
