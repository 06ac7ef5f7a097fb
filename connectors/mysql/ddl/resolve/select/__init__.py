"""The columns of CREATE TABLE … SELECT: names, expressions and their types."""
