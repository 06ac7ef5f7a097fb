"""A connector's JSON as values: the configuration alone, or with its name as Kafka Connect's API takes it.

Invariant: a salt that is part of a key is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from app.migrate.draft import Entry
from app.migrate.properties import decoded, parse
from connectors.errors import UsageError

_CLASSES = ("mysqlconnector", "mariadbconnector")
_SALT = re.compile(r"(\.with\.salt\.).*")
_PROVIDED = re.compile(r"\$\{[^}]*:[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector's name and its keys."""

    name: str
    entries: tuple[Entry, ...]

    def get(self, *names: str) -> Entry | None:
        """Return the first of several keys that has a value, other than a value from a config provider."""
        found = {entry.key: entry for entry in self.entries if entry.value and not provided(entry)}
        return next((found[name] for name in names if name in found), None)

    def text(self, *names: str, default: str = "") -> str:
        """Return the value of the first of several keys that has a value."""
        entry = self.get(*names)
        return entry.value if entry else default

    def stated(self, name: str, default: str) -> Entry:
        """Return a key with its value, or with Debezium's default, which the report names."""
        return self.get(name) or Entry(
            key=name, value=default, file=f"default of Debezium: {default}"
        )

    def beginning(self, prefix: str) -> Iterator[Entry]:
        """Return the entries whose keys begin with a prefix."""
        return (entry for entry in self.entries if entry.key.startswith(prefix))


def provided(entry: Entry) -> bool:
    """Return whether a value comes from one of Kafka Connect's config providers, as ``${file:path:key}``."""
    return _PROVIDED.search(entry.value) is not None


def separated(text: str) -> list[str]:
    """Return the parts of a list of Debezium, each without the blanks around it."""
    return [part.strip() for part in re.split(r"(?<!\\),", text) if part.strip()]


def read_connector(path: Path) -> Connector:
    """Read a connector's file; raise UsageError if it configures no connector for MySQL or MariaDB."""
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON object")
    config = found.get("config", found)
    if not isinstance(config, dict) or not config:
        raise UsageError(f"{path} has no configuration of a connector")
    name = str(found.get("name") or config.get("name") or path.stem)
    connector = str(config.get("connector.class", ""))
    if connector.rpartition(".")[2].lower() not in _CLASSES:
        raise UsageError(
            f"{path} configures {connector or 'no connector.class'}",
            remedy="Name a file of a MySqlConnector or MariaDbConnector",
        )
    return Connector(name=name, entries=tuple(_entries(config, path.name)))


def with_worker(connector: Connector, path: Path) -> Connector:
    """Return a connector with the converters of its worker's properties, if it names no converter itself."""
    try:
        values = parse(decoded(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    more = [
        Entry(key=key, value=value.strip(), file=path.name)
        for side in ("key", "value")
        if connector.get(f"{side}.converter") is None
        for key, value in values.items()
        if key == f"{side}.converter" or key.startswith(f"{side}.converter.")
    ]
    return replace(connector, entries=(*connector.entries, *more))


def _entries(config: dict[str, Any], file: str) -> Iterator[Entry]:
    for key, value in config.items():
        text = orjson.dumps(value).decode() if isinstance(value, bool | dict | list) else value
        value_text = "" if text is None else str(text).strip()
        yield Entry(key=_SALT.sub(r"\1…", key), value=value_text, file=file)
