"""Encoders of column values, from the text of a SELECT to the bytes of a row image; one family of types a file.

Invariant: the readers in ``rows/values`` return for these bytes what they return for the server's
own; a text that cannot be such a value raises ValueError or a similar error, and is never
approximated.
Source: MySQL's field.cc (the pack functions).
"""
