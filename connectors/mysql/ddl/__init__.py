"""DDL: statements parsed, and applied to a server's known tables."""
