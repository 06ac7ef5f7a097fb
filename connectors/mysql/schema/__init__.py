"""Columns and keys of tables: from information_schema, from table maps, and at an exact position."""
