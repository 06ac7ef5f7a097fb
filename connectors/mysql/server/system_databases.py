"""The databases that a server keeps for itself."""

from __future__ import annotations

SYSTEM = ("information_schema", "mysql", "ndbinfo", "performance_schema", "sys")
"""Databases of the server's own."""
