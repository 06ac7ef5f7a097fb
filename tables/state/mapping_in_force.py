"""The versions of the mapping that a destination published by, with the position from which each was in force.

Invariant: a record is in the Kafka transaction that claims an epoch at its position, between two transactions
of the source. All rows before that position were published by earlier versions, all rows after it by this
version or later versions. The journal also has a copy of the newest version, which ZooKeeper may lose.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.errors import MappingError
from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, encoded, read_as
from tables.journal_kind import Kind, StatePart
from tables.rules.mapping.stored_version import StoredVersion

MOST_COPIED_BYTES = 500_000
"""The limit of a compressed version: with the rest of a claim it must fit into one batch of Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingInForce:
    """A version of the mapping, and the boundary at which it came into force."""

    destination: str
    version: int
    digest: str
    """The digest of the mapping's contents."""
    position: str
    """The position of the source at which it came into force, as an operator reads it."""
    seq: int
    """The last number given to a record before it."""
    ts_ms: int
    """In milliseconds since 1970, by the worker's clock."""


@dataclass(slots=True)
class MappingsInForce:
    """All of a destination's boundaries in the journal, by version."""

    by_version: dict[int, MappingInForce] = field(default_factory=dict)
    copy: StoredVersion | None = None
    """A copy of the last version that was in force; of an earlier version if the last is too large."""
    refused: tuple[int, str] | None = None
    """The last version that the destination's tables do not fit, and why."""

    def take(self, kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in."""
        if kind == MAPPING_COPY.name:
            self.copy = read_as("a copy of the mapping", record, _copied)
        elif kind == MAPPING_REFUSED.name:
            self.refused = read_as(
                "a refused mapping", record, lambda value: (value["version"], value["why"])
            )
        else:
            found = read_as("the mapping in force", record, lambda value: MappingInForce(**value))
            self.by_version[found.version] = found

    def copied(self, one: MappingInForce) -> StoredVersion | None:
        """The journal's copy of a version that was in force; None if the copy is of another one."""
        copy = self.copy
        is_same = copy is not None and (copy.number, copy.digest) == (one.version, one.digest)
        return copy if is_same else None

    def in_order(self) -> list[MappingInForce]:
        """All boundaries, the oldest version first."""
        return [self.by_version[number] for number in sorted(self.by_version)]

    @property
    def last(self) -> MappingInForce | None:
        """The version in force now; None before the first. Versions only come into force in their order."""
        return self.by_version[max(self.by_version)] if self.by_version else None


MAPPING_PART = StatePart(lambda _: MappingsInForce())
MAPPING: Kind[Any] = Kind(name="mapping", part=MAPPING_PART)
MAPPING_COPY: Kind[Any] = Kind(name="mapping_copy", part=MAPPING_PART)
MAPPING_REFUSED: Kind[Any] = Kind(name="mapping_refused", part=MAPPING_PART)


def note_of(one: MappingInForce) -> Entry:
    """A record for the journal: ``mapping/<destination>/<version>``."""
    return MAPPING.key(one.destination, str(one.version)), encoded(asdict(one))


def copy_of(destination: str, version: StoredVersion) -> list[Entry]:
    """The record with a version itself: ``mapping_copy/<destination>``; empty if the version is too large."""
    stored = version.to_bytes()
    if len(stored) > MOST_COPIED_BYTES:
        return []
    value = {"version": version.number, "stored": base64.b64encode(stored).decode()}
    return [(MAPPING_COPY.key(destination), encoded(value))]


def refusal_of(destination: str, version: int, why: str) -> Entry:
    """The record of a version that is refused: ``mapping_refused/<destination>``."""
    return MAPPING_REFUSED.key(destination), encoded({"version": version, "why": why})


def _copied(value: dict[str, Any]) -> StoredVersion:
    try:
        return StoredVersion.from_bytes(value["version"], base64.b64decode(value["stored"]))
    except (MappingError, binascii.Error) as error:
        raise ValueError(str(error)) from error
