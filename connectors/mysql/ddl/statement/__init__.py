"""DDL statements as values: the syntax tree that the grammar builds and ``resolve`` reads."""
