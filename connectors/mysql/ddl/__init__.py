"""DDL: statements parsed, and applied to the tables of a server as far as they are known."""
