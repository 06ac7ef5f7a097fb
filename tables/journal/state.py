"""The journal: keys, values, and how its records fold into a destination's state.

The law: of a key only the last record counts, so that any compaction folds to the same state. Keys are
``installation/<id>``, ``cursor/<destination>``, ``schema/<destination>/<database>/<table>/<version>``, and
those of the schema history: ``history/…``, ``baseline/…``, ``resolved/…`` and ``checkpoint/…``; and
``fp/…`` and ``source/…``, which tell of its sources.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from connectors.errors import JournalDamaged, JournalTooNew, JournalUnreadable
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.cursor import Cursor
from tables.fingerprints import KINDS as PRINT_KINDS
from tables.fingerprints import Fingerprints
from tables.journal.leader import KINDS as LEADER_KINDS
from tables.journal.leader import Leader, Leaders
from tables.journal_format import decoded, encoded, quoted, unquoted
from tables.operator.control import KINDS as CONTROL_KINDS
from tables.operator.control import Control, Controls
from tables.operator.interventions import KINDS as INTERVENTION_KINDS
from tables.operator.interventions import Interventions
from tables.operator.skips import KINDS as SKIP_KINDS
from tables.operator.skips import Skips
from tables.operator.source_choice import KINDS as SOURCE_KINDS
from tables.operator.source_choice import SourceChoice
from tables.quarantine import KINDS as QUARANTINE_KINDS
from tables.quarantine import Quarantine
from tables.schema_history.codec.fold import KINDS, NEWEST, HistoryFold
from tables.schema_history.history import SchemaHistory
from tables.table_version import TableVersion

__all__ = [
    "INSTALLATION_PARTITION",
    "DestinationState",
    "Part",
    "cursor_key",
    "decoded",
    "encoded",
    "fold",
    "installation_in",
    "installation_key",
    "is_installation",
    "partition_of",
    "quoted",
    "version_key",
]

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


def version_key(version: TableVersion) -> bytes:
    """The key of a table version."""
    names = (version.destination, version.database, version.table)
    return f"schema/{'/'.join(quoted(name) for name in names)}/{version.version}".encode()


class Part(Protocol):
    """What some kinds of the journal's records fold into."""

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:
        """Fold a record in, whose key goes on with these names behind the destination's."""
        ...


def _parts(base: int) -> dict[str, Part]:
    """The parts of a state beside cursor and versions, by the kind of record that they take."""
    history, quarantine = HistoryFold(base), Quarantine()
    return {
        **dict.fromkeys(KINDS, history),
        **dict.fromkeys(QUARANTINE_KINDS, quarantine),
        **dict.fromkeys(INTERVENTION_KINDS, Interventions()),
        **dict.fromkeys(SKIP_KINDS, Skips()),
        **dict.fromkeys(CONTROL_KINDS, Controls()),
        **dict.fromkeys(LEADER_KINDS, Leaders()),
        **dict.fromkeys(PRINT_KINDS, Fingerprints()),
        **dict.fromkeys(SOURCE_KINDS, SourceChoice()),
    }


@dataclass(slots=True)
class DestinationState:
    """What the journal says of one destination."""

    destination: str
    cursor: Cursor | None = None
    versions: dict[tuple[str, str], TableVersion] = field(default_factory=dict)
    """The latest version of each (database, table)."""
    parts: Mapping[str, Part] = field(default_factory=partial(_parts, NEWEST), compare=False)
    unreadable: dict[bytes, JournalDamaged | JournalTooNew] = field(
        default_factory=dict, compare=False
    )
    """Errors of the records that cannot be read, by key; a later record of the key mends each."""
    _cursor_at: int = field(default=-1, compare=False)
    _history: SchemaHistory | None = field(default=None, compare=False)
    _quoted: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        self._quoted = quoted(self.destination)

    @classmethod
    def with_history_from(cls, destination: str, base: int) -> DestinationState:
        """A state to fold into that keeps another checkpoint of the schema history than the newest."""
        return cls(destination, parts=_parts(base))

    @property
    def version_count(self) -> int:
        """How many versions there are of all tables; versions count from 1 without gaps."""
        return sum(version.version for version in self.versions.values())

    @property
    def history_fold(self) -> HistoryFold:
        """What the journal holds of the schema history."""
        fold = self.parts["checkpoint"]
        assert isinstance(fold, HistoryFold)
        return fold

    @property
    def quarantine(self) -> Quarantine:
        """The tables that are or were set aside."""
        part = self.parts["quarantine"]
        assert isinstance(part, Quarantine)
        part.destination = self.destination
        return part

    @property
    def fingerprints(self) -> Fingerprints:
        """Those of the last transactions."""
        part = self.parts["fp"]
        assert isinstance(part, Fingerprints)
        part.destination = self.destination
        return part

    @property
    def source_choice(self) -> SourceChoice:
        """Which source is read, and which one a person asks for."""
        part = self.parts["source"]
        assert isinstance(part, SourceChoice)
        return part

    @property
    def control(self) -> Control | None:
        """The last word of a person on the destination."""
        part = self.parts["control"]
        assert isinstance(part, Controls)
        return part.last

    @property
    def leader(self) -> Leader | None:
        """Which worker has claimed it last; None where the claim was made before that was written."""
        part = self.parts["leader"]
        assert isinstance(part, Leaders)
        return part.last

    @property
    def skips(self) -> Skips:
        """Transactions that a person has said to leave out."""
        part = self.parts["skip"]
        assert isinstance(part, Skips)
        return part

    @property
    def interventions(self) -> Interventions:
        """What people have changed about the cursor."""
        part = self.parts["intervention"]
        assert isinstance(part, Interventions)
        return part

    def history(self) -> SchemaHistory | None:
        """The schema history at the cursor; None where none was begun.

        It may be long, so it is not kept here twice: nothing more can be folded in.
        """
        count = None if self.cursor is None else self.cursor.history
        if self._history is None and count is not None:
            self._history = self.history_fold.build(count)
            self.parts = {**self.parts, **dict.fromkeys(KINDS, HistoryFold())}
        return self._history

    def apply(self, record: StoredRecord) -> None:
        """Fold one record in; those of other destinations change nothing.

        Raises JournalDamaged where the epoch or the sequence goes back. What cannot be read is kept for
        ``check_readable``, as of a key only the last record counts.
        """
        self.unreadable.pop(record.key, None)
        try:
            self._apply(record)
        except (JournalUnreadable, JournalTooNew) as error:
            key = record.key.decode("utf-8", "replace")
            error.where = {**error.where, "offset": record.offset, "key": key}
            self.unreadable[record.key] = error

    def check_readable(self) -> None:
        """Raise JournalUnreadable or JournalTooNew where the last record of a key cannot be read."""
        for error in self.unreadable.values():
            raise error

    def _apply(self, record: StoredRecord) -> None:
        kind, _, rest = record.key.decode("utf-8", "replace").partition("/")
        if kind == "cursor":
            if rest == self.destination:
                self._move(Cursor.from_json(decoded(record)), record.offset)
            return
        destination, *names = rest.split("/")
        if destination != self._quoted:
            return
        if kind == "schema":
            self._version(TableVersion.from_json(decoded(record)))
        elif kind in self.parts:
            if "%" in rest:
                names = [unquoted(name) for name in names]
            self.parts[kind].take(kind, names, record)

    def _version(self, version: TableVersion) -> None:
        name = (version.database, version.table)
        known = self.versions.get(name)
        if known is None or known.version < version.version:
            self.versions[name] = version

    def _move(self, cursor: Cursor, offset: int) -> None:
        if offset <= self._cursor_at:
            # A checkpoint had a later one already; what it lacked makes us read from before that.
            return
        old = self.cursor
        if old is not None and (cursor.epoch < old.epoch or cursor.seq < old.seq):
            raise JournalDamaged(
                f"the cursor goes back, from epoch {old.epoch} seq {old.seq} "
                f"to epoch {cursor.epoch} seq {cursor.seq}",
                destination=self.destination,
                offset=offset,
            )
        self.cursor, self._cursor_at = cursor, offset

    def is_whole(self) -> bool:
        """Whether all is here that the cursor was written under: table versions, and the schema history."""
        cursor = self.cursor
        if cursor is None:
            return True
        if cursor.versions > self.version_count:
            return False
        if cursor.history is None or self._history is not None:
            return True
        return self.history_fold.is_whole(cursor.history)

    def other_base(self) -> int | None:
        """The checkpoint that the schema history begins with, if another one's content was kept."""
        count = None if self.cursor is None else self.cursor.history
        if count is None or self.history_fold.is_whole(count):
            return None
        head = self.history_fold.base(count) or self.history_fold.checkpoint_for(count)
        return head.number if head else None

    def lack(self) -> str:
        """What is not here that the cursor counts."""
        cursor = self.cursor
        if cursor is None or cursor.history is None or cursor.versions > self.version_count:
            count = cursor and cursor.versions
            return (
                f"its cursor counts {count} table versions, {self.version_count} are in the journal"
            )
        return (
            f"its cursor counts {cursor.history} records of the schema history, and there is no "
            "checkpoint of it with all records behind that"
        )


def fold(destination: str, records: Iterable[StoredRecord]) -> DestinationState:
    """The state of a destination after these records, in the journal's order."""
    state = DestinationState(destination)
    for record in records:
        state.apply(record)
    return state


def is_installation(record: StoredRecord) -> bool:
    """Whether a record is of an installation; the first one counts, whoever else tried."""
    return record.key.startswith(b"installation/")


def installation_in(record: StoredRecord) -> str:
    """The installation's id that such a record tells."""
    return record.key.decode("utf-8", "replace").partition("/")[2]
