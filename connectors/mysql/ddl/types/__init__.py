"""Column types and collations as servers resolve them from a statement's words."""
