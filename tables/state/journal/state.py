"""The journal: how its records fold into a destination's state.

Invariant: only the last record of a key counts, so that any compaction folds to the same state. The
part that each kind of record folds into is registered in ``tables/state/journal/kinds.py``.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.errors import JournalDamaged, JournalTooNew, JournalUnreadable
from connectors.kafka.producer import put_all, send_all
from connectors.kafka.reading import StoredRecord, read_each
from connectors.kafka.topics import TopicPlan
from tables.history.codec import HISTORY_PART, HistoryFold
from tables.history.history import SchemaHistory
from tables.journal_format import Entry, decoded, encoded, quoted, unquoted
from tables.journal_kind import Parts
from tables.rules.table_version import TableVersion
from tables.state.cursor import CURSOR_PART, Cursor, cursor_key
from tables.state.fingerprints import FINGERPRINTS_PART, Fingerprints
from tables.state.journal.kinds import KINDS, Kinds
from tables.state.journal.records import LEADER_PART, VERSION_PART, Leader, version_key
from tables.state.operator_requests import (
    CONTROL_PART,
    SOURCE_PART,
    Control,
    SourceChoice,
)
from tables.state.quarantine import QUARANTINE_PART, Quarantine
from tables.state.snapshots.snapshot_progress import SNAPSHOT_PART, Snapshots
from wire.topics import journal_topic

__all__ = [
    "DestinationState",
    "cursor_key",
    "decoded",
    "encoded",
    "fold",
    "partition_of",
    "quoted",
    "version_key",
]


def partition_of(destination: str, partitions: int) -> int:
    """The partition that holds all records of a destination; the count of partitions is fixed."""
    return zlib.crc32(destination.encode()) % partitions


@dataclass(slots=True, eq=False)
class DestinationState:
    """The state of one destination in the journal."""

    destination: str
    kinds: Kinds = KINDS
    unreadable: dict[bytes, JournalDamaged | JournalTooNew] = field(default_factory=dict)
    """Errors of the unreadable records, by key; a later record of the key clears each."""
    parts: Parts = field(init=False)
    """The parts that the kinds of records fold into. Parts with many readers are properties, too."""
    removed: tuple[bytes, ...] = ()
    """Keys of the old history to remove when the history begins again, so that no later history reads them."""
    _history: SchemaHistory | None = None
    _quoted: str = field(init=False)

    def __post_init__(self) -> None:
        self.parts = Parts(self.destination)
        self._quoted = quoted(self.destination)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same progress: cursor and table versions."""
        return isinstance(other, DestinationState) and (
            (self.destination, self.cursor, self.versions)
            == (other.destination, other.cursor, other.versions)
        )

    @classmethod
    def with_history_from(cls, destination: str, base: int) -> DestinationState:
        """A state to fold into that keeps another checkpoint of the schema history than the newest."""
        state = cls(destination)
        state.parts[HISTORY_PART] = HistoryFold(base)
        return state

    @property
    def cursor(self) -> Cursor | None:
        """The last cursor; None before the first."""
        return self.parts[CURSOR_PART].last

    @cursor.setter
    def cursor(self, cursor: Cursor) -> None:
        self.parts[CURSOR_PART].last = cursor

    @property
    def versions(self) -> dict[tuple[str, str], TableVersion]:
        """The latest version of each (database, table)."""
        return self.parts[VERSION_PART].latest

    @property
    def published(self) -> list[TableVersion]:
        """The latest version of each table in each topic that it was published to, the oldest version first."""
        found = self.parts[VERSION_PART].in_topics.values()
        return sorted(found, key=lambda one: (one.database, one.table, one.version))

    @property
    def version_count(self) -> int:
        """The number of versions of all tables; versions count from 1 without gaps."""
        return sum(version.version for version in self.versions.values())

    @property
    def history_fold(self) -> HistoryFold:
        """The schema history in the journal."""
        return self.parts[HISTORY_PART]

    @property
    def quarantine(self) -> Quarantine:
        """The tables that are or were quarantined."""
        return self.parts[QUARANTINE_PART]

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of the last transactions."""
        return self.parts[FINGERPRINTS_PART]

    @property
    def source_choice(self) -> SourceChoice:
        """The source that is read, and the one an operator requests."""
        return self.parts[SOURCE_PART]

    @property
    def control(self) -> Control | None:
        """The operator's desired state of the destination."""
        return self.parts[CONTROL_PART].last

    @property
    def leader(self) -> Leader | None:
        """The worker that last claimed the destination; None if an older version made the claim."""
        return self.parts[LEADER_PART].last

    @property
    def snapshots(self) -> Snapshots:
        """The reading of existing rows, by table."""
        return self.parts[SNAPSHOT_PART]

    def history(self) -> SchemaHistory | None:
        """The schema history at the cursor; None if no history was begun.

        It may be long, so only one copy is kept: no more records can be folded in.
        """
        count = None if self.cursor is None else self.cursor.history
        if self._history is None and count is not None:
            self._history = self.history_fold.build(count)
            self.parts[HISTORY_PART] = HistoryFold()
        return self._history

    def new_history(self) -> SchemaHistory:
        """A schema history that has not begun, with numbers that follow the numbers in the journal."""
        history, count = SchemaHistory(), None if self.cursor is None else self.cursor.history
        history.init(self.destination, count=count or 0, checkpoints=self.history_fold.highest)
        return history

    def begin_history_again(self) -> None:
        """Replace the journal's history, whatever records it still has, by a history that has not begun.

        Unreadable records of the old history are no longer errors, except records in a newer format.
        """
        kept, damage = {}, []
        for key, error in self.unreadable.items():
            kind = self.kinds.of(key)
            is_of_history = kind is not None and kind.part is HISTORY_PART
            if is_of_history and not isinstance(error, JournalTooNew):
                damage.append(key)
            else:
                kept[key] = error
        self.removed = (*damage, *self.history_fold.given_keys())
        self._history, self.unreadable = self.new_history(), kept
        self.parts[HISTORY_PART] = HistoryFold()

    def apply(self, record: StoredRecord) -> None:
        """Fold one record in; records of other destinations change nothing.

        Raise JournalDamaged if the epoch or the sequence goes back. An unreadable record is kept
        for ``check_readable``, as only the last record of a key counts.
        """
        self.unreadable.pop(record.key, None)
        try:
            self._apply(record)
        except (JournalUnreadable, JournalTooNew) as error:
            key = record.key.decode("utf-8", "replace")
            error.context = {**error.context, "offset": record.offset, "key": key}
            self.unreadable[record.key] = error

    def check_readable(self) -> None:
        """Raise JournalUnreadable or JournalTooNew if the last record of a key cannot be read."""
        for error in (*self.unreadable.values(), *self.history_fold.unreadable):
            raise error

    def _apply(self, record: StoredRecord) -> None:
        name, _, rest = record.key.decode("utf-8", "replace").partition("/")
        kind = self.kinds.named(name)
        if kind is None or kind.part is None:
            return
        if kind.is_plain:
            if rest == self.destination:
                self.parts[kind.part].take(name, [], record)
            return
        destination, *names = rest.split("/")
        if destination == self._quoted:
            if "%" in rest:
                names = [unquoted(name) for name in names]
            self.parts[kind.part].take(name, names, record)

    def is_whole(self) -> bool:
        """Whether all that the cursor counts is present: table versions, and the schema history."""
        cursor = self.cursor
        if cursor is None:
            return True
        if cursor.versions > self.version_count:
            return False
        if cursor.history is None or self._history is not None:
            return True
        return self.history_fold.is_whole(cursor.history)

    def other_base(self) -> int | None:
        """The number of the checkpoint that the history begins with, if another one's content was kept."""
        count = None if self.cursor is None else self.cursor.history
        if count is None or self.history_fold.is_whole(count):
            return None
        head = self.history_fold.base(count) or self.history_fold.checkpoint_for(count)
        return head.number if head else None

    @property
    def lacks_history(self) -> bool:
        """Whether records of the schema history are missing, and nothing else."""
        cursor = self.cursor
        return cursor is not None and cursor.versions <= self.version_count and not self.is_whole()

    def lack(self) -> str:
        """The records that the cursor counts and that are missing, as a text."""
        cursor = self.cursor
        if cursor is None or cursor.history is None or cursor.versions > self.version_count:
            count = cursor and cursor.versions
            return (
                f"its cursor counts {count} table versions, {self.version_count} are in the journal"
            )
        return (
            f"its cursor counts {cursor.history} records of the schema history, and there is no "
            "checkpoint of it with all later records"
        )


def fold(
    destination: str, records: Iterable[StoredRecord], *, kinds: Kinds = KINDS
) -> DestinationState:
    """The state of a destination after these records, in the journal's order."""
    state = DestinationState(destination, kinds)
    for record in records:
        state.apply(record)
    return state


# The journal's partition of one destination: the position of its records, and how to read and write them.
#
# Invariant: committed records only, in their order.


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPartition:
    """A partition that holds the records of a destination, and records of other destinations."""

    destination: str
    topic: str
    number: int
    options: Mapping[str, Any]
    """The options for connecting to Kafka."""

    @classmethod
    def of(cls, destination: str, topic: TopicPlan, options: Mapping[str, Any]) -> JournalPartition:
        """The partition of a destination, in the journal of its installation."""
        number = partition_of(destination, topic.partitions)
        return cls(destination=destination, topic=topic.name, number=number, options=options)

    @property
    def prefix(self) -> str:
        """The prefix of all topics of the installation."""
        return self.topic.removesuffix(journal_topic(""))

    async def read(
        self, take: Callable[[StoredRecord], object], *, start: int = 0, waits_for_open: bool = True
    ) -> int:
        """Call ``take`` with each record from an offset to the present end; return the count.

        See ``read_each``.
        """
        return await read_each(
            self.options,
            self.topic,
            self.number,
            start=start,
            take=take,
            waits_for_open=waits_for_open,
        )

    async def put(self, kafka: Any, notes: Iterable[Entry]) -> list[asyncio.Future[Any]]:
        """Put records into an open transaction, in their order; return the futures of their results.

        The futures must be awaited. ``kafka``: as ``TransactionalProducer.transaction`` gives it.
        """
        return await put_all(kafka, self.topic, self.number, notes)

    async def send(self, kafka: Any, notes: Iterable[Entry]) -> list[int]:
        """Put records into an open transaction; return their offsets once all are acknowledged."""
        return await send_all(kafka, self.topic, self.number, notes)

    async def fold_into(self, state: DestinationState, start: int) -> None:
        """Fold the records from an offset on into a state."""
        await self.read(state.apply, start=start)
