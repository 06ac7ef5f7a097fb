"""From the bytes of a row image to the wire's values, one family of types a file.

The law: a reader takes the image and the offset of its value, and returns the value as ``docs/wire.md`` has it
and the offset after it. It raises where bytes are missing or make no sense; it never substitutes.
Source: MySQL's field.cc (the pack functions) and libs/mysql/binlog/event/row.
"""
