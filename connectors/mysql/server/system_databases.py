"""The server's system databases."""

from __future__ import annotations

SYSTEM = ("information_schema", "mysql", "ndbinfo", "performance_schema", "sys")
"""The server's own databases."""
