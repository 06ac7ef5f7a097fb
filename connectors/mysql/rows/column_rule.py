"""Column rules, which replace a column's values before they are formatted as text.

Invariant: a rule is applied once to each value, in images and in keys alike, in either decoder;
NULL and columns that an image lacks are left unchanged.
"""

from __future__ import annotations

from typing import Protocol

Value = str | int | float | None
"""A value as in JSON; None is null."""


class ColumnRule(Protocol):
    """A rule; it is picklable, for decoder processes."""

    def __call__(self, value: Value) -> Value:
        """The replacement of a value, always the same for the same value."""
