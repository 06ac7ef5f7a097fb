"""A table as a statement names it."""

from __future__ import annotations

TableRef = tuple[str | None, str]
"""A table as a statement names it: the database may be missing."""
