"""`dead-letters`: rows that could not be decoded, listed."""
