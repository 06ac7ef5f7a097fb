"""Online schema changes: the shadow tables of gh-ost and its like, and their cut-over."""
