"""`dead-letters`: list undecodable rows."""
