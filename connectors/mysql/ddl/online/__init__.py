"""Online schema changes: the shadow tables of gh-ost and similar tools, and their cut-over."""
