"""The latest version of each table of a destination in the journal, and of each table in each topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import decoded
from tables.journal_kind import Kind, StatePart
from tables.rules.table_version import TableVersion

Name = TypeVar("Name")


@dataclass(slots=True)
class VersionFold:
    """The table versions of one destination."""

    latest: dict[tuple[str, str], TableVersion] = field(default_factory=dict)
    """By database and table."""
    in_topics: dict[tuple[str, str, str], TableVersion] = field(default_factory=dict)
    """By database, table and topic: how a table was last published to a topic that it may have left since."""

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a record in; an older version changes nothing."""
        version = TableVersion.from_json(decoded(record))
        name = (version.database, version.table)
        _take(self.latest, name, version)
        _take(self.in_topics, (*name, version.topic), version)


def _take(versions: dict[Name, TableVersion], name: Name, version: TableVersion) -> None:
    known = versions.get(name)
    if known is None or known.version < version.version:
        versions[name] = version


VERSION_PART = StatePart(lambda _: VersionFold())
VERSION: Kind[Any] = Kind(name="schema", part=VERSION_PART)


def version_key(version: TableVersion) -> bytes:
    """The key of a table version: ``schema/<destination>/<database>/<table>/<version>``."""
    names = version.destination, version.database, version.table, str(version.version)
    return VERSION.key(*names)
