"""The journal: keys, values, and how its records fold into a destination's state.

The law: each value is whole and says its format's number; an older format stays readable, a newer one is
refused by name. Removal is a record too, so there are no tombstones. Keys are ``installation/<id>``,
``cursor/<destination>`` and ``schema/<destination>/<database>/<table>/<version>``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from connectors.errors import JournalDamaged, JournalTooNew
from connectors.kafka.reading import StoredRecord
from tables.cursor import Cursor
from tables.version import TableVersion

FORMAT = 1
INSTALLATION_PARTITION = 0


def partition_of(destination: str, partitions: int) -> int:
    """The partition that holds all records of a destination; the same for ever, so the count is fixed."""
    return zlib.crc32(destination.encode()) % partitions


def installation_key(installation: str) -> bytes:
    """The key of an installation's record; each has its own, so that the first one stays."""
    return f"installation/{installation}".encode()


def cursor_key(destination: str) -> bytes:
    """The key of a destination's cursor."""
    return f"cursor/{destination}".encode()


def quoted(name: str) -> str:
    """A name as it stands in a key."""
    return quote(name, safe="")


def version_key(version: TableVersion) -> bytes:
    """The key of a table version."""
    names = (version.destination, version.database, version.table)
    return f"schema/{'/'.join(quoted(name) for name in names)}/{version.version}".encode()


def encoded(value: dict[str, Any]) -> bytes:
    """A journal value: the content, and the number of this format."""
    return orjson.dumps({"format": FORMAT, **value})


def decoded(record: StoredRecord) -> dict[str, Any]:
    """The content of a journal value; raise JournalTooNew or JournalDamaged."""
    key, offset = record.key.decode("utf-8", "replace"), record.offset
    try:
        value = orjson.loads(record.value)
        number = value.pop("format")
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise JournalDamaged(
            f"a record cannot be read: {error!r}", key=key, offset=offset
        ) from error
    if number != FORMAT:
        raise JournalTooNew(f"format {number}, this version reads {FORMAT}", key=key, offset=offset)
    assert isinstance(value, dict)
    return value


@dataclass(slots=True)
class DestinationState:
    """What the journal says of one destination."""

    destination: str
    cursor: Cursor | None = None
    versions: dict[tuple[str, str], TableVersion] = field(default_factory=dict)
    """The latest version of each (database, table)."""

    @property
    def version_count(self) -> int:
        """How many versions there are of all tables; versions count from 1 without gaps."""
        return sum(version.version for version in self.versions.values())

    def apply(self, record: StoredRecord) -> None:
        """Fold one record in; those of other destinations change nothing.

        Raises JournalDamaged where the epoch or the sequence goes back.
        """
        kind, _, rest = record.key.decode("utf-8", "replace").partition("/")
        if kind == "cursor" and rest == self.destination:
            self._move(Cursor.from_json(decoded(record)), record.offset)
        elif kind == "schema" and rest.split("/", 1)[0] == quoted(self.destination):
            version = TableVersion.from_json(decoded(record))
            name = (version.database, version.table)
            known = self.versions.get(name)
            if known is None or known.version < version.version:
                self.versions[name] = version

    def _move(self, cursor: Cursor, offset: int) -> None:
        old = self.cursor
        if old is not None and (cursor.epoch < old.epoch or cursor.seq < old.seq):
            raise JournalDamaged(
                f"the cursor goes back, from epoch {old.epoch} seq {old.seq} "
                f"to epoch {cursor.epoch} seq {cursor.seq}",
                destination=self.destination,
                offset=offset,
            )
        self.cursor = cursor

    def is_whole(self) -> bool:
        """Whether all table versions are here that the cursor was written under."""
        return self.cursor is None or self.cursor.versions <= self.version_count


def fold(destination: str, records: Iterable[StoredRecord]) -> DestinationState:
    """The state of a destination after these records, in the journal's order."""
    state = DestinationState(destination)
    for record in records:
        state.apply(record)
    return state


def first_installation(records: Iterable[StoredRecord]) -> str | None:
    """The installation that came first; it is the one that counts, whoever else tried."""
    for record in records:
        kind, _, installation = record.key.decode("utf-8", "replace").partition("/")
        if kind == "installation":
            return installation
    return None
