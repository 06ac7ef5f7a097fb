"""Units of work beside the destinations that one of the workers leads, and all work of a worker."""
