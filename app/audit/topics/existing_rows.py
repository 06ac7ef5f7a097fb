"""The existing rows that a SELECT returned, each checked against the other records of its key.

Invariant: the same audit compares the other records with the source, so a row that agrees with them was true at
its number. The records are kept in a file until all topics are read, since only their numbers order the records
of several partitions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Self

import orjson

from app.audit.topics.key_history import Effect, Entry, KeyHistory, Proof
from app.audit.topics.record_check import Subject
from app.audit.topics.record_comparison import Columns, key_fault
from app.audit.topics.topics import is_whole
from app.audit.verdict import FaultKind, Finding, Verdict
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from connectors.scratch_file import scratch
from tables.history.present_columns import Described
from tables.rules.routes.routes import Route
from tables.state.snapshots.table_snapshot import TableSnapshot
from wire.changes import REPLACED, SNAPSHOT, change_key, reading_of
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
        if "ddl" in value:
            self._statement(seq, value)
            return
        change_id = dict(record.headers)[HEADER_CHANGE_ID].decode()
        name = (source["db"], source["table"])
        reading = reading_of(change_id)
        if (reading is None and name not in self._tables) or change_id.startswith(REPLACED):
            return
        table = self._table(name)
        if value["op"] == "t":
            # A replacement of rows empties the subscribers' table, not the source's.
            if reading is None:
                table.statements.append((seq, Effect.EMPTIED))
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

    def _statement(self, seq: int, value: Mapping[str, Any]) -> None:
        """Note a statement with each table that it may concern."""
        if _PARTITION.search(value["ddl"]) or value.get("outcome") == "unresolved":
            # Such a statement need not name all tables whose rows it moves.
            for table in self._tables.values():
                table.statements.append((seq, Effect.UNKNOWN))
            return
        for one in value.get("tables", ()):
            effect = Effect.ALTERED if one["change"] == "altered" else Effect.UNKNOWN
            self._note(seq, (one["database"], one["table"]), effect)
        for one in value.get("online", ()):
            self._note(seq, (one["database"], one["table"]), Effect.UNKNOWN)
        for one in value.get("effects", ()):
            if one["kind"] == TRUNCATE_OMITTED:
                self._note(seq, (one["database"], one["table"]), Effect.EMPTIED)

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
        self._count(counts)

    def _count(self, counts: Counter[Proof]) -> None:
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
