"""The rule for a column's values: what each becomes before any text is made of it.

Invariant: a rule is applied once to each value, in images and in keys alike, whichever way a row is decoded;
NULL and columns that an image lacks stay as they are.
"""

from __future__ import annotations

from typing import Protocol

Value = str | int | float | None
"""A value as JSON shows it: None for null."""


class ColumnRule(Protocol):
    """A rule; it travels to decoders' processes."""

    def __call__(self, value: Value) -> Value:
        """The value in this one's place, and always the same for the same."""
