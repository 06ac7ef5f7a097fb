"""The check of settings that are given as values, before there is a file.

Invariant: neither the environment nor a settings file is read; files of secrets and the mapping need not
exist yet.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from app.settings.errors import faults
from app.settings.model import Settings

Location = tuple[str | int, ...]


class _GivenSettings(Settings):
    """The worker's settings from values alone."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the values, and nothing else."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


def faults_of(values: dict[str, Any]) -> list[tuple[Location, str]]:
    """Return each fault with its location in the values; an empty list if the worker accepts them."""
    try:
        given = {name: one for name, one in values.items() if name != "mapping"}
        _GivenSettings(**_without_secret_files(given))
    except ValidationError as error:
        return [(one["loc"], "; ".join(faults([one], Settings))) for one in error.errors()]
    return []


def _without_secret_files(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secret_files(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_secret_files(one)
        for name, one in value.items()
        if not str(name).endswith("password_file")
    }
