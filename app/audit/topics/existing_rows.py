"""The existing rows that a SELECT returned, each checked against the other records of its key.

Invariant: the same audit compares the other records with the source, so a row that agrees with them was true at
its number. The records are kept in a file until all topics are read, since only their numbers order the records
of several partitions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import Any, Self

import orjson

from app.audit.topics.record_check import Subject
from app.audit.topics.record_comparison import Columns, key_fault
from app.audit.topics.topics import is_whole
from app.audit.verdict import FaultKind, Finding, Verdict
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from connectors.scratch_file import scratch
from tables.history.present_columns import Described
from tables.rules.routes.routes import Route
from tables.state.snapshots.snapshot_progress import TableSnapshot
from wire.changes import REPLACED, SNAPSHOT, change_key, parts_of, reading_of
from wire.records import HEADER_CHANGE_ID, TRUNCATE_OMITTED

_BATCH = 5000
_TABLES = """
CREATE TABLE entry (t INTEGER NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, change_id TEXT NOT NULL,
  version INTEGER NOT NULL, op TEXT NOT NULL, images BLOB NOT NULL, at BLOB NOT NULL);
"""
_PARTITION = re.compile(r"\bPARTITION", re.IGNORECASE)
_NO_KEY = (
    "existing rows of tables without a key, or whose mapping has another or leaves out changes"
)

_Row = tuple[int, bytes, int, str, int, str, bytes, bytes]


@dataclass(slots=True)
class _Table:
    """What is known of a table while records are read."""

    t: int
    name: TableName
    statements: list[tuple[int, Effect]] = field(default_factory=list)
    """The statements on the table, each with its number."""
    emptied: list[tuple[int, str]] = field(default_factory=list)
    """The records that all rows are gone, each with its number and its transaction."""
    taken: set[str] = field(default_factory=set)
    """The transactions by which another table took the name, with its rows."""
    unkeyed: int = 0
    """Rows that were read without a key that identifies them."""
    chunks: dict[str, tuple[int, Finding]] = field(default_factory=dict)
    """The last chunk of each reading, and one record of this chunk."""


class ExistingRows:
    """Takes one record after another, then judges the rows that were read with a SELECT."""

    def __init__(self, subject: Subject, verdict: Verdict, read: Iterable[TableName]) -> None:
        """``read`` are the tables of which the journal has a reading."""
        self._subject, self._verdict = subject, verdict
        self._db = scratch(_TABLES)
        self._waiting: list[_Row] = []
        self._tables: dict[TableName, _Table] = {}
        self._versions: dict[TableName, dict[int, Described]] = {}
        for (database, table, number), version in subject.versions.items():
            self._versions.setdefault((database, table), {})[number] = version
        for name in read:
            self._table(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _table(self, name: TableName) -> _Table:
        if name not in self._tables:
            self._tables[name] = _Table(len(self._tables), name)
        return self._tables[name]

    def take(self, topic: str, partition: int, record: StoredRecord, value: dict[str, Any]) -> None:
        """Add a record of a row topic, with its images, or of the DDL topic."""
        source = value["source"]
        seq = int(source["seq"])
        change_id = dict(record.headers)[HEADER_CHANGE_ID].decode()
        if "ddl" in value:
            self._statement(seq, value, parts_of(change_id)[0])
            return
        name = (source["db"], source["table"])
        reading = reading_of(change_id)
        if (reading is None and name not in self._tables) or change_id.startswith(REPLACED):
            return
        table = self._table(name)
        if value["op"] == "t":
            # A replacement of rows empties the subscribers' table, not the source's.
            if reading is None:
                table.emptied.append((seq, parts_of(change_id)[0]))
            return
        at = Finding(
            kind=FaultKind.UNTRUE,
            what="",
            change_id=change_id,
            source=f"{source.get('file')}:{source.get('pos')}",
            topic=topic,
            partition=partition,
            offset=record.offset,
        )
        if reading is not None:
            self._read(table, reading, at, record, value)
        is_keyed = bool(record.key) and record.key != change_key(change_id.encode())
        if is_keyed and self._has_row_keys(name, source):
            self._keep(table, record.key, at, value)
        elif reading is not None:
            table.unkeyed += 1
            # Only its ChangeId identifies the row, and a ChangeId occurs once.
            self._keep(table, change_id.encode(), at, value)

    def _keep(self, table: _Table, key: bytes, at: Finding, value: dict[str, Any]) -> None:
        source = value["source"]
        images = orjson.dumps([value.get("before"), value.get("after")])
        place = orjson.dumps([at.source, at.topic, at.partition, at.offset])
        version, seq = source.get("schema") or 0, int(source["seq"])
        row = (table.t, key, seq, str(at.change_id), version, value["op"], images, place)
        self._waiting.append(row)
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._waiting)
        self._db.execute("COMMIT")
        self._waiting.clear()

    def _route(self, name: TableName, seq: int) -> Route | None:
        return self._subject.routes.of_number(seq).of(name)

    def _has_row_keys(self, name: TableName, source: Mapping[str, Any]) -> bool:
        """Whether a table's records have its own key with unchanged values, and every change has a record."""
        route = self._route(name, int(source["seq"]))
        if route is None or route.mapped is None:
            return True
        rules = route.mapped.rules
        version = self._versions.get(name, {}).get(source.get("schema") or 0)
        if rules.key or rules.operations or version is None:
            return False
        is_renamed = any(one.action == "rename" for one in rules.column_actions)
        key = {column.lower() for column in version.primary_key}
        return not (route.column_rules and (is_renamed or key & set(route.column_rules)))

    def _read(
        self,
        table: _Table,
        reading: tuple[str, int],
        at: Finding,
        record: StoredRecord,
        value: dict[str, Any],
    ) -> None:
        """Check the form of a row that was read."""
        read, chunk = reading
        last = table.chunks.get(read)
        if last is None or chunk > last[0]:
            table.chunks[read] = chunk, at
        if fault := self._form_fault(table.name, at, record, value):
            self._verdict.add(replace(at, kind=FaultKind.DIFFERENT, what=fault))

    def _form_fault(
        self, name: TableName, at: Finding, record: StoredRecord, value: dict[str, Any]
    ) -> str | None:
        if value["op"] not in ("r", "d"):
            return f"it is {value['op']}, and its row was read"
        subject, source = self._subject, value["source"]
        version = subject.versions.get((*name, source.get("schema") or 0))
        route = self._route(name, int(source["seq"]))
        if route is None:
            return "the mapping that was in force for its seq does not publish its table"
        topics = subject.shares.with_homes({route.topic, version.topic if version else ""})
        if at.topic not in topics:
            return "it is not in a topic of its table"
        if version is None or not is_whole(value):
            return None
        if fault := _images_fault(value, version):
            return fault
        if route.mapped is not None and route.mapped.rules.partition_by:
            return None
        columns = Columns(version.columns, version.primary_key, (), ())
        spread = version.partitions or subject.partitions[str(at.topic)]
        target = (int(at.partition or 0), spread)
        return key_fault(columns, value, record, target, shard=route.shard)

    def _statement(self, seq: int, value: Mapping[str, Any], transaction: str) -> None:
        """Note a statement with each table that it may concern."""
        if _PARTITION.search(value["ddl"]) or value.get("outcome") == "unresolved":
            # Such a statement need not name all tables whose rows it moves.
            for table in self._tables.values():
                table.statements.append((seq, Effect.UNKNOWN))
            return
        for one in value.get("tables", ()):
            effect = Effect.ALTERED if one["change"] == "altered" else Effect.UNKNOWN
            name = one["database"], one["table"]
            self._note(seq, name, effect)
            if name in self._tables and one["renamed_from"] is not None:
                self._tables[name].taken.add(transaction)
        moved = {(one["database"], one["table"]) for one in value.get("tables", ())}
        for one in value.get("online", ()):
            self._note(seq, (one["database"], one["table"]), Effect.UNKNOWN)
        for one in value.get("effects", ()):
            name = one["database"], one["table"]
            if one["kind"] == TRUNCATE_OMITTED and name not in moved:
                self._note(seq, name, Effect.EMPTIED)

    def _note(self, seq: int, name: TableName, effect: Effect) -> None:
        if name in self._tables:
            self._tables[name].statements.append((seq, effect))

    def judge(self, *, incomplete: Mapping[TableName, str], knows_statements: bool) -> None:
        """Judge all rows that were read.

        ``incomplete`` gives the reason if the topics of a table lack some of its changes; of such a table, only
        repeated rows are reported.
        """
        self._flush()
        self._db.execute("CREATE INDEX by_key ON entry (t, key, seq)")
        counts: Counter[Proof] = Counter()
        for table in self._tables.values():
            reason = incomplete.get(table.name)
            own: Counter[Proof] = Counter()
            table.statements += (
                (seq, Effect.UNKNOWN if by in table.taken else Effect.EMPTIED)
                for seq, by in table.emptied
            )
            table.statements.sort(key=lambda one: one[0])
            for entries in self._by_key(table):
                own += self._judged(table, entries, reason, knows_statements=knows_statements)
            if table.unkeyed:
                # Each of these rows is alone under its ChangeId, so nothing was compared.
                own[Proof.NONE] -= table.unkeyed
                self._verdict.unjudged[_NO_KEY] += table.unkeyed
            if reason is not None:
                self._verdict.unjudged[f"existing rows of {'.'.join(table.name)}: {reason}"] += (
                    own.total()
                )
            else:
                counts += own
        for proof, count in counts.items():
            if proof is Proof.NONE:
                self._verdict.unjudged[proof.value] += count
            else:
                self._verdict.existing[proof.value] += count

    def _judged(
        self, table: _Table, entries: list[Entry], reason: str | None, *, knows_statements: bool
    ) -> Counter[Proof]:
        """Judge the records of one key."""

        def report(kind: FaultKind, at: Finding, what: str) -> None:
            if reason is None or kind is FaultKind.REPEATED:
                self._verdict.add(replace(at, kind=kind, what=what))

        history = KeyHistory(
            self._versions.get(table.name, {}), report, knows_statements=knows_statements
        )
        # A row without a key is identified by its ChangeId alone, which no statement on the table affects.
        statements = table.statements if entries[0].is_keyed else []
        passed = 0
        for entry in entries:
            while passed < len(statements) and statements[passed][0] < entry.seq:
                history.statement(statements[passed][1])
                passed += 1
            history.take(entry)
        history.close()
        return Counter(history.counts)

    def _by_key(self, table: _Table) -> Iterator[list[Entry]]:
        """Yield all records of each key of which a SELECT returned a row."""
        query = (
            "SELECT * FROM entry WHERE t = ? AND key IN (SELECT key FROM entry WHERE t = ? AND "
            "substr(change_id, 1, ?) = ?) ORDER BY key, seq, rowid"
        )
        found = self._db.execute(query, (table.t, table.t, len(SNAPSHOT), SNAPSHOT))
        for _, rows in groupby(found, key=lambda row: row[1]):
            yield [_entry(row) for row in rows]

    def chunks(self, latest: Mapping[TableName, TableSnapshot]) -> None:
        """Report each chunk that has rows in a topic and that the journal, as it is now, does not have."""
        for table in self._tables.values():
            known = latest.get(table.name)
            for read, (chunk, at) in table.chunks.items():
                if known is None:
                    what = "it was read, and the journal has no reading of its table"
                elif read.split(":")[1] == known.id and chunk > known.chunks:
                    what = (
                        f"it is of chunk {chunk}, and the journal has {known.chunks} of its table's"
                    )
                else:
                    continue
                self._verdict.add(replace(at, kind=FaultKind.CURSOR, what=what))


def _images_fault(value: Mapping[str, Any], version: Described) -> str | None:
    """The fault of the images of a row that was read; of a row that was not found, only the key is known."""
    one, other = ("before", "after") if value["op"] == "d" else ("after", "before")
    if value[other] is not None or value[one] is None:
        return "an image is missing, or there is one too many"
    wanted: list[str] = list(version.columns)
    if value["op"] == "d":
        wanted = [name for name in wanted if name in version.primary_key]
        if value.get("absent", []) != [name for name in version.columns if name not in wanted]:
            return "it does not name the columns that its row's key lacks"
    return "its columns are not the table's" if list(value[one]) != wanted else None


def incomplete_tables(
    quarantined: Mapping[TableName, bool], dead: Collection[TableName]
) -> dict[TableName, str]:
    """Return the tables that have changes in other topics than their own, each with the reason."""
    found = {name: "its changes are quarantined" for name, waits in quarantined.items() if waits}
    return found | dict.fromkeys(dead, "some of its changes are dead letters")


def _entry(row: _Row) -> Entry:
    _, key, seq, change_id, version, op, images, place = row
    before, after = orjson.loads(images)
    source, topic, partition, offset = orjson.loads(place)
    reading = reading_of(change_id)
    at = Finding(
        kind=FaultKind.UNTRUE,
        what="",
        change_id=change_id,
        source=source,
        topic=topic,
        partition=partition,
        offset=offset,
    )
    return Entry(
        seq=seq,
        op=op,
        version=version,
        before=before,
        after=after,
        read=None if reading is None else reading[0],
        at=at,
        is_keyed=key != change_id.encode(),
    )


# The records of one key in the order of their numbers: checks the rows among them that a SELECT
# returned.
#
# Invariant: a row that a SELECT returned has the image that the change before it left, and that
# the change after it found. A row that neither change proves is not judged, but counted.

Image = Mapping[str, Any]
Report = Callable[[FaultKind, Finding, str], None]
"""Receives the kind of a fault, the record's location, and a description."""


class Proof(Enum):
    """The change with which a row that was read was compared; the values are the words of the report."""

    EARLIER = "compared with the change before"
    LATER = "compared with the change after"
    NONE = "existing rows that no change of their key proves"


class Effect(Enum):
    """What a statement does to the rows of its table."""

    EMPTIED = "emptied"
    ALTERED = "altered"
    """The rows are the same, perhaps with other columns."""
    UNKNOWN = "unknown"
    """Rows may have come or gone without a row event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of a row; ``read`` is the reading that returned the row, or None for a change of the source."""

    seq: int
    op: str
    version: int
    before: Image | None
    after: Image | None
    read: str | None
    at: Finding
    """Its location."""
    is_keyed: bool = True
    """Whether the table's key identifies the row, not only its ChangeId."""


@dataclass(slots=True)
class _State:
    """The row after the last record."""

    exists: bool | None = None
    """None: not known."""
    image: Image | None = None
    """The columns that are known."""
    version: int = 0
    seq: int = 0
    is_of_change: bool = False
    """Whether a change of the source left this state, not only a row that was read."""


@dataclass(slots=True)
class KeyHistory:
    """Takes the records of one key, and the statements on its table between them."""

    versions: Mapping[int, Described]
    """The versions of the table."""
    report: Report
    knows_statements: bool
    """Whether every statement on the table is passed to ``statement``."""
    counts: dict[Proof, int] = field(default_factory=lambda: dict.fromkeys(Proof, 0))
    _state: _State = field(default_factory=_State)
    _waiting: list[Entry] = field(default_factory=list)
    """Rows that were read and that no earlier change proves."""
    _read: dict[str, Entry] = field(default_factory=dict)
    """The last row of each reading since the last statement."""

    def statement(self, effect: Effect) -> None:
        """Note a statement on the table."""
        # After a statement on the table, a reading may rightly return a key again.
        self._read.clear()
        if effect is Effect.EMPTIED:
            self._unproven()
            self._state = _State(exists=False, is_of_change=True)
        elif effect is Effect.UNKNOWN:
            self._unproven()
            self._state = _State()

    def take(self, entry: Entry) -> None:
        """Judge the next record."""
        if entry.read is not None:
            self._take_read(entry, entry.read)
            return
        self._prove_waiting(entry)
        if entry.op == "d":
            self._state = _State(exists=False, seq=entry.seq, is_of_change=True)
            return
        state = self._state
        known = entry.after
        if known is not None and entry.op == "u" and state.image and state.version == entry.version:
            # An image may lack columns that the change did not modify.
            known = {**state.image, **known}
        self._state = _State(True, known, entry.version, entry.seq, is_of_change=True)

    def close(self) -> None:
        """Finish after the last record: count the rows that remain unproven."""
        self._unproven()

    def _take_read(self, entry: Entry, read: str) -> None:
        if entry.op == "d":
            self._take_removed(entry)
            return
        if any(one.op == "d" for one in self._waiting):
            # The row exists again without a change of the source, so a later change proves nothing about the
            # delete.
            self._unproven()
        state, earlier = self._state, self._read.get(read)
        if earlier is not None and self._is_repeated(earlier, entry):
            what = f"the same reading has returned its row already, with seq {earlier.seq}"
            self.report(FaultKind.REPEATED, entry.at, what)
        self._read[read] = entry
        if state.exists is False:
            self.counts[Proof.EARLIER] += 1
            after = f"after seq {state.seq}" if state.seq else "after its table was emptied"
            self.report(FaultKind.UNTRUE, entry.at, f"it was read, and did not exist {after}")
            return
        column, is_proof = self._compared(entry, state.image, state.version)
        if column is not None:
            what = f"{column} has another value than in the record before it, seq {state.seq}"
            self.report(FaultKind.UNTRUE, entry.at, what)
        if column is not None or (is_proof and state.is_of_change):
            self.counts[Proof.EARLIER] += 1
        else:
            self._waiting.append(entry)
        if not state.is_of_change:
            self._state = _State(True, entry.after, entry.version, entry.seq)

    def _take_removed(self, entry: Entry) -> None:
        """Judge the delete of a row that a reading did not find.

        A row that an earlier change left is no fault: subscribers have an extra row only if the source lost it
        without a trace in its binlog.
        """
        self._unproven()
        if self._state.exists is False:
            self.counts[Proof.EARLIER] += 1
        else:
            self._waiting.append(entry)
            self._state = _State(exists=None)

    def _prove_removed(self, entry: Entry, change: Entry) -> None:
        """Judge the delete of a row that a reading did not find, by the change after the delete."""
        is_proof = change.op == "c" or self.knows_statements
        if change.op != "c" and self.knows_statements:
            what = f"it was not read, and existed when it was changed by seq {change.seq}"
            self.report(FaultKind.UNTRUE, entry.at, what)
        self.counts[Proof.LATER if is_proof else Proof.NONE] += 1

    def _is_repeated(self, earlier: Entry, entry: Entry) -> bool:
        """Whether a reading returned a row again without a statement on the table that explains it."""
        if earlier.at.change_id == entry.at.change_id:
            return True
        return self.knows_statements and earlier.version == entry.version

    def _prove_waiting(self, change: Entry) -> None:
        """Compare the waiting rows with the row that a change found."""
        for entry in self._waiting:
            if entry.op == "d":
                self._prove_removed(entry, change)
                continue
            column, is_proof = self._compared(entry, change.before, change.version)
            if change.op == "c" and self.knows_statements:
                is_proof = True
                what = f"it was read, and did not exist before it was inserted by seq {change.seq}"
                self.report(FaultKind.UNTRUE, entry.at, what)
            elif column is not None:
                is_proof = True
                what = (
                    f"{column} has another value than the change after it found, seq {change.seq}"
                )
                self.report(FaultKind.UNTRUE, entry.at, what)
            self.counts[Proof.LATER if is_proof else Proof.NONE] += 1
        self._waiting.clear()

    def _unproven(self) -> None:
        self.counts[Proof.NONE] += len(self._waiting)
        self._waiting.clear()

    def _compared(self, entry: Entry, other: Image | None, version: int) -> tuple[str | None, bool]:
        """The first column whose value differs, and whether more than the key was compared."""
        image = entry.after
        if image is None or other is None:
            return None, False
        own = self.versions.get(entry.version)
        key = own.primary_key if own is not None else ()
        compared = 0
        for name, counterpart in self._shared(entry.version, version, image):
            if counterpart not in other:
                continue
            if not _same(image[name], other[counterpart]):
                return name, True
            compared += name not in key
        return None, bool(compared) or len(image) <= len(key)

    def _shared(self, one: int, other: int, image: Image) -> Sequence[tuple[str, str]]:
        """The columns that two versions have in common, as pairs of their names."""
        if one == other:
            return [(name, name) for name in image]
        first, second = self.versions.get(one), self.versions.get(other)
        if first is None or second is None:
            return []
        theirs = {_column(second, at): name for at, name in enumerate(second.columns)}
        pairs = [
            (name, theirs.get(_column(first, at), "")) for at, name in enumerate(first.columns)
        ]
        return [pair for pair in pairs if pair[1] and pair[0] in image]


def _column(version: Described, at: int) -> tuple[str, str, str | None]:
    """The identity of a column across versions; if it differs, a statement may have converted values."""
    own = version.ids[at] if at < len(version.ids) else None
    return own or version.columns[at], version.types[at], version.charsets[at]


def _same(one: Any, other: Any) -> bool:
    """Whether two values on the wire are equal; values of different types never are."""
    return type(one) is type(other) and bool(one == other)
