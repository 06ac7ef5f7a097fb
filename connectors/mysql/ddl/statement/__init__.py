"""DDL statements as values: the syntax tree that the grammar makes and the effects read."""
