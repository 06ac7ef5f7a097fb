"""Units of work that one of the workers leads: what destinations, merges and logical schemas have in common."""
