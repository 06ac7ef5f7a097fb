"""Records of the journal itself: which worker leads a destination, the installation's id, and the
table versions.

Invariant: the leader's record is written in the Kafka transaction of the claim, so its epoch always
equals the cursor's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, decoded, encoded, read_as
from tables.journal_kind import Kind, StatePart
from tables.rules.table_version import TableVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A worker that leads, or led last."""

    destination: str
    worker: str
    address: str
    """The address of its HTTP server; may be empty."""
    process: str
    """A random id of the process, since another process may have the same worker id."""
    epoch: int
    ts_ms: int


def leader_in(record: StoredRecord) -> Leader:
    """The leader in a record; raise JournalUnreadable."""
    return read_as("who leads", record, lambda value: Leader(**value))


@dataclass(slots=True)
class Leaders:
    """The leader records of one destination in the journal."""

    last: Leader | None = None
    _offset: int = -1

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; an older one changes nothing."""
        if record.offset > self._offset:
            self.last, self._offset = leader_in(record), record.offset


LEADER_PART = StatePart(lambda _: Leaders())
LEADER: Kind[Any] = Kind(name="leader", part=LEADER_PART)


def leader_key(destination: str) -> bytes:
    """The key of a leader's record: ``leader/<destination>/claim``."""
    return LEADER.key(destination, "claim")


def note_of(leader: Leader) -> Entry:
    """A record for the journal."""
    return leader_key(leader.destination), encoded(asdict(leader))


# The installation's record: the random id that is part of every transactional id.
#
# Invariant: each proposal has a key of its own, and the first in the partition is valid.


INSTALLATION: Kind[Any] = Kind(name="installation", is_plain=True)
INSTALLATION_PARTITION = 0


def installation_key(installation: str) -> bytes:
    """The key of an installation's record: ``installation/<id>``."""
    return INSTALLATION.key(installation)


def is_installation(record: StoredRecord) -> bool:
    """Whether a record is of an installation."""
    return INSTALLATION.is_of(record.key)


def installation_in(record: StoredRecord) -> str:
    """The installation's id in such a record's key."""
    return record.key.decode("utf-8", "replace").partition("/")[2]


# The latest version of each table of a destination in the journal, and of each table in each
# topic.


Name = TypeVar("Name")


@dataclass(slots=True)
class VersionFold:
    """The table versions of one destination."""

    latest: dict[tuple[str, str], TableVersion] = field(default_factory=dict)
    """By database and table."""
    in_topics: dict[tuple[str, str, str], TableVersion] = field(default_factory=dict)
    """By database, table and topic: a table's last version in a topic, which the table may have left since."""

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
