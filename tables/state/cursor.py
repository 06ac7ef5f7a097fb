"""The cursor: the position up to which a destination has been published.

Invariant: a cursor is written in the same Kafka transaction as the rows before it, so it never
differs from them. What is stored carries its checksum: a number changed by hand would lose or
repeat rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from connectors.errors import JournalDamaged, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import KEPT, Recent
from connectors.mysql.position import Coordinates, SourceOffset, parse_gtids
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.journal_format import decoded
from tables.journal_kind import Kind, StatePart


@dataclass(slots=True)
class CursorFold:
    """The last cursor of one destination."""

    destination: str
    last: Cursor | None = None
    _offset: int = -1

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a record in; an older one changes nothing. Raise JournalDamaged if the cursor goes back."""
        cursor, old = Cursor.from_json(decoded(record)), self.last
        if record.offset <= self._offset:
            # A checkpoint already had a later cursor; since records were missing there, the fold
            # began before it.
            return
        if old is not None and (cursor.epoch < old.epoch or cursor.seq < old.seq):
            raise JournalDamaged(
                f"the cursor goes back, from epoch {old.epoch} seq {old.seq} "
                f"to epoch {cursor.epoch} seq {cursor.seq}",
                destination=self.destination,
                offset=record.offset,
            )
        self.last, self._offset = cursor, record.offset


def _claimed_in(record: StoredRecord) -> Claimed:
    return Claimed.from_json(decoded(record))


CURSOR_PART = StatePart(CursorFold)
CURSOR = Kind(name="cursor", part=CURSOR_PART, notice=_claimed_in, is_plain=True)


def cursor_key(destination: str) -> bytes:
    """The key of a destination's cursor: ``cursor/<destination>``."""
    return CURSOR.key(destination)


# Proof of a cursor: evidence that a server's binlog is still the one that was read.
#
# Invariant: it is written with the cursor, in the Kafka transaction of the rows before it. A
# cursor without it is readable; the next run adds what the server reports then.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHead:
    """A binlog file, as its first event identifies it."""

    file: str
    created: int
    """The time of its creation, seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorProof:
    """The recorded facts of the binlog before a cursor."""

    landmark: Landmark | None = None
    """The last transaction before it."""
    head: FileHead | None = None
    """The newest file whose beginning was read, or in which the run began; the last transaction may be in an
    earlier file, or in no file."""
    recent: tuple[Recent, ...] = ()
    """The last published transactions that have GTIDs, oldest first."""
    by_gtids_to: Coordinates | None = None
    """Up to here the binlog may contain transactions that were published from another server, so it
    is read by GTIDs; after it, by file and offset."""

    @property
    def is_empty(self) -> bool:
        """Whether it proves nothing."""
        return self.landmark is None and self.head is None

    def after(
        self, landmark: Landmark | None, recent: Iterable[Recent], head: FileHead | None = None
    ) -> CursorProof:
        """The proof after these transactions were published."""
        kept = (*self.recent, *recent)[-KEPT:]
        return replace(
            self, landmark=landmark or self.landmark, head=head or self.head, recent=kept
        )

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        landmark, head, to = self.landmark, self.head, self.by_gtids_to
        return {
            "landmark": landmark.to_json() if landmark is not None else None,
            "head": [head.file, head.created] if head is not None else None,
            "recent": [[one.gtid, one.digest, one.ts_ms] for one in self.recent],
            "by_gtids_to": str(to) if to is not None else None,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CursorProof:
        """Read what ``to_json`` wrote; raise KeyError, ValueError or TypeError for another value."""
        if not value:
            return cls()
        landmark, head, to = value["landmark"], value["head"], value["by_gtids_to"]
        return cls(
            landmark=Landmark.from_json(landmark) if landmark is not None else None,
            head=FileHead(file=head[0], created=head[1]) if head is not None else None,
            recent=tuple(Recent(*one) for one in value["recent"]),
            by_gtids_to=Coordinates.parse(to) if to is not None else None,
        )


def next_epoch(last: int, *, term: int = 0, now: float) -> int:
    """Return the epoch of a new claim of a destination: greater than any that was claimed before.

    ``last`` is the journal's, ``term`` the czxid of the leader's node in ZooKeeper, ``now`` in
    seconds since 1970. The journal may be an older copy, so that its last epoch alone could be
    claimed twice.
    """
    return max(last + 1, term, int(now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The point at which a transaction published in parts is resumed."""

    transaction_id: str
    rows: int
    """Source rows of it that are processed, including filtered rows."""
    published: int
    """Row records of it that are published."""
    part: int
    """Parts of it that are published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The epoch and writer of a cursor."""

    destination: str
    epoch: int
    by: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Claimed:
        """Read these fields of what ``Cursor.to_json`` wrote; raise JournalUnreadable."""
        try:
            return cls(
                destination=str(value["destination"]),
                epoch=int(value["epoch"]),
                by=value.get("by"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JournalUnreadable(f"a cursor cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A destination's position in its source and in its own stream of records."""

    destination: str
    installation: str
    epoch: int
    seq: int
    """The last number given to a record; 0 before the first."""
    versions: int
    """The number of table versions in the journal when this was written."""
    offset: SourceOffset
    resume: Resume | None = None
    prepared: Mapping[str, PreparedPosition] = field(default_factory=dict)
    """XA transactions prepared before this position and not yet decided."""
    history: int | None = None
    """The number of schema history records before this position; None: no history was begun."""
    by: str | None = None
    """The intervention that set the cursor here; any former leader may lead again."""
    written_ms: int | None = None
    """The time of writing, in milliseconds since 1970 by the writer's clock; None: by an older version."""
    proof: CursorProof = field(default_factory=CursorProof)
    """Evidence that a server's binlog is still the one that this position refers to."""
    is_new_start: bool = False
    """Whether the schema history starts again here, since the part before it was not read."""

    def to_json(self) -> dict[str, Any]:
        """The cursor as the journal keeps it."""
        offset = self.offset
        value: dict[str, Any] = {
            "destination": self.destination,
            "installation": self.installation,
            "epoch": self.epoch,
            "seq": self.seq,
            "versions": self.versions,
            "server_uuid": offset.server_uuid,
            "file": offset.coordinates.file,
            "pos": offset.coordinates.pos,
            "gtid_set": None if offset.gtid_set is None else str(offset.gtid_set),
            "resume": None
            if self.resume is None
            else {
                "transaction_id": self.resume.transaction_id,
                "rows": self.resume.rows,
                "published": self.resume.published,
                "part": self.resume.part,
            },
            "prepared": {
                xid: {"gtid": at.gtid, "file": at.coordinates.file, "pos": at.coordinates.pos}
                for xid, at in self.prepared.items()
            },
            "history": self.history,
            **({"written_ms": self.written_ms} if self.written_ms is not None else {}),
            "proof": self.proof.to_json(),
            **({"by": self.by, "new_start": self.is_new_start} if self.by else {}),
        }
        return {**value, "check": _check(value)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Cursor:
        """Read what ``to_json`` wrote; raise JournalUnreadable for another value."""
        # Cursors that were written before there was a checksum have none.
        if value.get("check") not in (None, _check(value)):
            raise JournalUnreadable(
                f"the cursor of epoch {value.get('epoch')} seq {value.get('seq')} was changed by hand: its "
                "checksum is another's",
                destination=value.get("destination"),
            )
        try:
            gtid_set = value["gtid_set"]
            resume = value["resume"]
            return cls(
                destination=value["destination"],
                installation=value["installation"],
                epoch=value["epoch"],
                seq=value["seq"],
                versions=value["versions"],
                offset=SourceOffset(
                    server_uuid=value["server_uuid"],
                    coordinates=Coordinates(value["file"], value["pos"]),
                    gtid_set=None if gtid_set is None else parse_gtids(gtid_set),
                ),
                resume=None if resume is None else Resume(**resume),
                # Cursors that were written before XA transactions could be carried have none.
                prepared={
                    xid: PreparedPosition(Coordinates(at["file"], at["pos"]), at["gtid"])
                    for xid, at in value.get("prepared", {}).items()
                },
                # Such cursors have no schema history either.
                history=value.get("history"),
                # Cursors that were written before positions were verified have no proof.
                proof=CursorProof.from_json(value.get("proof") or {}),
                by=value.get("by"),
                written_ms=value.get("written_ms"),
                is_new_start=value.get("new_start", False),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalUnreadable(f"a cursor cannot be read: {error!r}") from error


def _check(value: Mapping[str, Any]) -> int:
    """The checksum of a cursor's other fields."""
    rest = {name: one for name, one in value.items() if name != "check"}
    return zlib.crc32(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
