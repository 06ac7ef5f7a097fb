"""`cursor`: show, set, export and import a destination's cursor; skip one transaction."""
