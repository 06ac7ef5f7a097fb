"""The settings file: YAML, whose paths to other files begin at its own folder.

Invariant: only paths of files that are read (secrets, certificates) are resolved here. Folders that are written
to belong to the working folder, since the settings' folder may be read-only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, YamlConfigSettingsSource

_READ = re.compile(r"(_file|_ca|_cafile)$")
"""How names of settings end whose value is a file that is read: password_file, tls_ca, ssl_cafile."""


class SettingsFile(YamlConfigSettingsSource):
    """pydantic's source for YAML, with relative paths resolved against the file's folder."""

    def __init__(self, settings: type[BaseSettings], path: Path) -> None:
        super().__init__(settings, yaml_file=path)
        self._folder = path.absolute().parent

    def __call__(self) -> dict[str, Any]:
        """The file's content."""
        content: dict[str, Any] = _resolved(super().__call__(), self._folder)
        return content


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolved(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: str(folder / each)
        if isinstance(each, str) and isinstance(name, str) and _READ.search(name)
        else _resolved(each, folder)
        for name, each in value.items()
    }
