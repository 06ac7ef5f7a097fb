"""Records of other programs in the topics of table versions, DDL and transaction markers.

Invariant: a record is passed by only if neither its key nor its value names anything of this installation, or
if another record states the same. So no record of a worker is lost by it; each record passed by is reported.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from wire.records import WIRE_VERSION
from wire.table_version import VersionKey

_log = logging.getLogger(__name__)
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a text raises that no worker of this version wrote."""


@dataclass(frozen=True, slots=True, order=True)
class ForeignRecord:
    """A record that is passed by, and why it is none of this installation's."""

    topic: str
    partition: int
    offset: int
    reason: str


Report = Callable[[str, Sequence[ForeignRecord]], object]
"""Takes a topic and all foreign records that a reading of the whole topic has found."""


def warn_of_foreign(topic: str, found: Sequence[ForeignRecord]) -> None:
    """Log that foreign records are passed by."""
    if found:
        last = max(found)
        _log.warning(
            "records passed by, as no worker wrote them topic=%s number=%d last: partition %d, offset %d: %s",
            topic,
            len(found),
            last.partition,
            last.offset,
            last.reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """A record as Kafka has it, with texts in place of bytes."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: str | None

    def foreign(self, reason: str) -> ForeignRecord:
        """Return this record as one that is passed by."""
        return ForeignRecord(self.topic, self.partition, self.offset, reason)


def versions_in(records: Iterable[RawRecord]) -> tuple[list[str], list[ForeignRecord]]:
    """Return the values of the schemas topic that name a table version, oldest first, and the foreign records.

    A value that cannot be read, of a version that its key names and that no other record has, is replaced by
    that version's name alone: `SchemaBook` then lacks the version. A tombstone is omitted.
    """
    values: list[str] = []
    foreign: list[ForeignRecord] = []
    whole: set[VersionKey] = set()
    damaged: set[VersionKey] = set()
    for record in records:
        if record.value is None:
            continue
        named = _named(record.key)
        try:
            key = _version_key(record.value, named)
        except UNREADABLE as fault:
            reason = f"{type(fault).__name__} {fault}"
            if named is None:
                foreign.append(record.foreign(f"no table version: {reason}"))
            else:
                foreign.append(record.foreign(f"{named} cannot be read: {reason}"))
                damaged.add(named)
        else:
            whole.add(key)
            values.append(record.value)
    values += [json.dumps(asdict(key)) for key in sorted(damaged - whole)]
    return values, foreign


def _named(key: str | None) -> VersionKey | None:
    """The version that a record's key names; None if it names none."""
    try:
        return VersionKey.of(json.loads(key or ""))
    except UNREADABLE:
        return None


def _version_key(value: str, named: VersionKey | None) -> VersionKey:
    """The version that a value states; raise one of UNREADABLE if it states none, or another than its key."""
    body = json.loads(value)
    key = VersionKey.of(body)
    if named not in (None, key):
        raise ValueError(f"its value is of {key}")
    # In a later version of the contract, the rest may have other names.
    if body["wire"] == WIRE_VERSION and not isinstance(body["columns"], list):
        raise TypeError("its columns are no list")
    return key


def marker_sql(text: str) -> str:
    """Return the condition that a record of a transactions topic, with the value `text`, is a marker."""
    status, name, wire = (f"get_json_object({text}, '$.{one}')" for one in ("status", "id", "wire"))
    is_marker = f"{status} IN ('BEGIN', 'END') AND {name} IS NOT NULL AND {wire} IS NOT NULL"
    return f"coalesce({is_marker}, false)"


def no_markers(found: Iterable[tuple[str, int, int]]) -> list[ForeignRecord]:
    """Return the records of transactions topics at these places that are no markers."""
    return [ForeignRecord(*at, "no transaction marker") for at in sorted(found)]


def is_open(marker: str) -> bool:
    """Whether the transaction of a marker may continue after it, as after one that cannot be understood."""
    try:
        body = json.loads(marker)
        is_end = body["status"] == "END"
        return body["wire"] != WIRE_VERSION or (is_end and body.get("last", True) is not True)
    except UNREADABLE:
        return True
