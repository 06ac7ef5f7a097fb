"""Settings and command arguments that cannot be used."""

from __future__ import annotations

from connectors.errors.base import AqueductError


class SettingsError(AqueductError):
    """The settings are not usable."""


class UsageError(AqueductError):
    """The command's arguments are not usable."""

    remedy = "Correct them; --help lists what the command accepts."
