"""Destinations by their names in the settings."""

from __future__ import annotations

from app.settings.model import Settings
from connectors.errors import UsageError


def check_destination(settings: Settings, destination: str) -> None:
    """Raise UsageError if the settings have no such destination."""
    if destination not in settings.destinations:
        known = ", ".join(sorted(settings.destinations))
        raise UsageError(f"the settings have no destination {destination!r}, only: {known}")
