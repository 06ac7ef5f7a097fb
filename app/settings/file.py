"""The settings file with resolved paths, and the check of environment variables.

Invariant: only paths of files that are read (secrets, certificates, the mapping) are resolved here. Folders
that are written to are relative to the working folder, since the settings' folder may be read-only.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import BaseSettings, YamlConfigSettingsSource

from connectors.errors import SettingsError

_READ = re.compile(r"(_file|_ca|_cafile)$")
"""Endings of settings whose value is a file that is read: password_file, tls_ca, ssl_cafile."""


class SettingsFile(YamlConfigSettingsSource):
    """pydantic's source for YAML, with relative paths resolved against the file's folder."""

    def __init__(self, settings: type[BaseSettings], path: Path) -> None:
        super().__init__(settings, yaml_file=path)
        self._folder = path.absolute().parent

    def __call__(self) -> dict[str, Any]:
        """Return the file's content."""
        content: dict[str, Any] = _resolved(super().__call__(), self._folder)
        mapping = content.get("mapping")
        if isinstance(mapping, dict) and isinstance(file := mapping.get("file"), str):
            # By its path, not by ``_READ``: the ``file`` of a start position is one of the server's.
            mapping["file"] = str(self._folder / file)
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


class _OneOfEach(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A YAML loader that refuses duplicate keys; YAML's own silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key, _ in node.value:
            if (
                isinstance(key, yaml.ScalarNode)
                and names.count(key.value) > 1
                and key.value != "<<"
            ):
                raise yaml.MarkedYAMLError(
                    problem="the same name is given twice", problem_mark=key.start_mark
                )
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def refuse_unreadable(path: Path) -> None:
    """Raise SettingsError if a file holds no settings; invalid YAML is reported with its line."""
    try:
        # The loader is derived from SafeLoader.
        content = yaml.load(path.read_text("utf-8"), _OneOfEach) if path.is_file() else None  # noqa: S506
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{path} is not YAML{_line_text(error)}",
            remedy="Quote text that begins with a sign, as in '*text'.",
        ) from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not YAML: {_without_values(str(error))}") from None
    if content is None:
        return
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise SettingsError(f"{path} holds no settings: each begins with its name and a colon")
    if _holds_itself(content, ()):
        raise SettingsError(f"{path} has an alias (*name) within what it stands for")


def refuse_unwritable(folder: Path) -> None:
    """Raise SettingsError if ``data_dir`` cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"data_dir: {folder} cannot be written to: {error.strerror}",
            remedy="Name a folder that this account may write to",
        ) from None


def _holds_itself(value: Any, above: tuple[int, ...]) -> bool:
    """Return whether a list or a mapping contains itself, as YAML's aliases allow."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return False
    return id(value) in above or any(_holds_itself(each, (*above, id(value))) for each in inner)


def _line_text(error: yaml.YAMLError) -> str:
    """Return the parser's line, column and message."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    words = getattr(error, "problem", None) or getattr(error, "reason", None) or ""
    return f"{position}: {_without_values(words)}" if words else position


def _without_values(words: str) -> str:
    """Return the parser's message without quoted text, which may be a password; single characters stay."""
    return re.sub(r"'(?!\\.')[^']{2,}'|\"[^\"]{2,}\"", "'…'", words)[:200]


# The check of environment variables with our prefix.
#
# Invariant: an unknown variable is refused, since a misspelt name would silently set nothing.


PREFIX = "AQUEDUCT_"
_OTHER_PREFIXES = ("AQUEDUCT_SINK_", "AQUEDUCT_SPARK_", "AQUEDUCT_TEST_")
"""Prefixes of other programs' variables."""


def refuse_unknown(settings: Iterable[str], *others: str) -> None:
    """Raise SettingsError for unknown variables with our prefix; ``others`` are known besides the settings."""
    known = {f"{PREFIX}{name.upper()}" for name in settings} | {*others}
    unknown = [
        name
        for name in sorted(os.environ)
        if name.upper().startswith(PREFIX)
        and not name.upper().startswith(_OTHER_PREFIXES)
        and name.upper().split("__")[0] not in known
    ]
    if unknown:
        raise SettingsError(f"the environment sets {', '.join(unknown)}, which is no setting")
