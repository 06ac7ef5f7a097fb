"""Readers of column values, from the bytes of a row image to the wire's values; one family of types per file.

Invariant: a reader takes the image and the offset of its value, and returns the value as specified
in ``docs/wire.md`` and the offset after it. It raises if bytes are missing or invalid; it never
substitutes.
Source: MySQL's field.cc (the pack functions) and libs/mysql/binlog/event/row.
"""
