"""The latest version of each table of a destination in the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import decoded
from tables.journal_kind import Kind, StatePart
from tables.table_version import TableVersion


@dataclass(slots=True)
class VersionFold:
    """The table versions of one destination."""

    latest: dict[tuple[str, str], TableVersion] = field(default_factory=dict)
    """By database and table."""

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a record in; an older version changes nothing."""
        version = TableVersion.from_json(decoded(record))
        name = (version.database, version.table)
        known = self.latest.get(name)
        if known is None or known.version < version.version:
            self.latest[name] = version


VERSION_PART = StatePart(lambda _: VersionFold())
VERSION: Kind[Any] = Kind(name="schema", part=VERSION_PART)


def version_key(version: TableVersion) -> bytes:
    """The key of a table version: ``schema/<destination>/<database>/<table>/<version>``."""
    names = version.destination, version.database, version.table, str(version.version)
    return VERSION.key(*names)
