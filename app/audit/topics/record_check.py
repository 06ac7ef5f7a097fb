"""Check of each record of the topics against the source's changes.

Invariant: the records of one partition are read in order, those of several partitions in any mixture. Each
record is found in the source by its ChangeId alone; its number, epoch and position are checked separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.audit.change_store import Change, Transaction
from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.record_comparison import Comparer, key_fault
from app.audit.topics.topics import Claims, Copies, Partition, Shares, is_whole
from app.audit.truth.changes import Truth
from app.audit.truth.window import End
from app.audit.verdict import FaultKind, Finding, Verdict
from connectors.kafka.reading import StoredRecord, format_of, source_of
from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.ddl.hidden_literals import query_without_literals
from connectors.store.claims import ClaimStore
from tables.history.present_columns import Versions
from tables.rules.mapping.rules import DEBEZIUM
from tables.rules.routes.routes import Route, Routes
from wire.changes import ANNOUNCED, DDL_ORDINAL, SNAPSHOT, TRUNCATE, emptied_by, parts_of
from wire.records import HEADER_CHANGE_ID

Watch = Callable[[str, int, StoredRecord, dict[str, Any]], None]
"""Receives each record of a row topic, with its images, and of the DDL topic."""

WHOLE, OLD_HALF, NEW_HALF, PARKED, DEAD, WAITING, GIVEN_UP = 1, 2, 4, 8, 16, 32, 64
"""The parts seen of a change, one bit each. A change that is PARKED may have been released since, unless it is
WAITING or GIVEN_UP, too."""
_COPIES = "copies in merged topics, of which only the order is checked"
_HALVES = {"": WHOLE, "0": OLD_HALF, "1": NEW_HALF}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The records to check, and the facts by which they are checked."""

    routes: RoutesInForce
    destination: str
    ddl_topic: str
    seq: int
    """The cursor's number."""
    end: End
    server_uuid: str
    versions: Versions
    partitions: Mapping[str, int]
    beginnings: Mapping[Partition, int]
    claims: ClaimStore | None = None
    """The store of images that were too large for their topic."""
    shares: Shares = field(default_factory=Shares)
    """The destination's shares of merged topics."""


@dataclass(slots=True)
class PartitionState:
    """The part of one partition seen so far."""

    seq: int = 0
    positions: dict[TableName, int] = field(default_factory=dict)
    """The greatest position by source table: of those that share a topic, one may have been quarantined, so
    its changes follow later changes of the others."""
    epoch: int = 0
    first_seq: int | None = None
    first_position: int | None = None
    copied: str = ""
    """The ChangeId of the last record that is a copy of a share's record."""
    tombstones: dict[bytes, Finding] = field(default_factory=dict)
    """Deletes whose tombstone was not read yet, by key."""


@dataclass(slots=True)
class Span:
    """The numbers that one epoch assigned."""

    first: int
    last: int
    finding: Finding


class RecordCheck:
    """Checks one record after another; the results are complete after the last record."""

    def __init__(
        self, subject: Subject, truth: Truth, verdict: Verdict, watches: Sequence[Watch] = ()
    ) -> None:
        self.subject = subject
        self.truth = truth
        self.verdict = verdict
        self.seen = bytearray(truth.store.changes)
        self.numbers = bytearray(subject.seq // 8 + 1)
        """A bit for each number up to the cursor's."""
        self.epochs: dict[int, Span] = {}
        self.held: dict[Partition, PartitionState] = {}
        self.statements: set[int] = set()
        self.dropped: dict[int, Counter[str]] = {}
        """By rank, the records of transactions that drop or rename tables, by topic; no change in the binlog is
        theirs."""
        self.greatest = 0
        self.copies = Copies()
        """Set after the shares are read, and before any other topic is read."""
        self.others: Counter[str] = Counter()
        self._comparers: dict[int, tuple[Routes, Comparer]] = {}
        """By the id of the routes; the routes are kept so that their id is not reused."""
        self._claims = Claims(subject.claims, verdict.unjudged)
        self._watches = watches

    def take(self, topic: str, partition: int, record: StoredRecord) -> None:
        """Check a record of a row topic, or of the DDL topic."""
        if not record.value:
            self._tombstone(topic, partition, record)
            return
        try:
            value = contents_of(record)
            source = value["source"]
            is_of_destination = source["name"] == self.subject.destination
            seq, epoch = int(source["seq"]), int(source["epoch"])
            change_id = dict(record.headers)[HEADER_CHANGE_ID].decode()
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            at = Finding(
                kind=FaultKind.FOREIGN,
                what=f"it is not a record of the wire contract: {error!r}",
                topic=topic,
                partition=partition,
                offset=record.offset,
            )
            self.verdict.add(at)
            return
        if not is_of_destination:
            self.others[topic] += 1
            return
        self.greatest = max(self.greatest, seq)
        if seq > self.subject.seq:
            self.verdict.unjudged["records after the cursor that was read"] += 1
            return
        one = _One(topic, partition, record, value, change_id, seq)
        held = self.held.setdefault((topic, partition), PartitionState())
        if self.copies.has(topic, seq):
            self._copy(one, held)
            return
        self._number(one, held, epoch)
        if topic == self.subject.ddl_topic:
            self._statement(one)
        else:
            one.claim = self._claims.redeem(value)
            self._row(one, held)
        if FORMAT not in value:
            for watch in self._watches:
                watch(topic, partition, record, value)
        held.seq = max(held.seq, seq)

    def has_number(self, seq: int) -> bool:
        """Whether some record has this number."""
        return seq <= self.subject.seq and bool(self.numbers[seq >> 3] & 1 << (seq & 7))

    def _copy(self, one: _One, held: PartitionState) -> None:
        """Check only the order of a copy: the record itself is judged in its share."""
        self.verdict.unjudged[_COPIES] += 1
        if one.seq <= held.seq:
            self._fault(FaultKind.OUT_OF_ORDER, one, f"seq {one.seq} follows seq {held.seq}")
        if held.first_seq is None:
            held.first_seq = one.seq
        held.seq, held.copied = max(held.seq, one.seq), one.change_id

    def _number(self, one: _One, held: PartitionState, epoch: int) -> None:
        seq = one.seq
        byte, bit = seq >> 3, 1 << (seq & 7)
        if self.numbers[byte] & bit:
            self._fault(FaultKind.SEQ_GAPS, one, f"seq {seq} is used a second time")
        self.numbers[byte] |= bit
        if epoch < held.epoch:
            self._fault(FaultKind.EPOCHS_BACK, one, f"epoch {epoch} follows epoch {held.epoch}")
        held.epoch = max(held.epoch, epoch)
        if held.first_seq is None:
            held.first_seq = seq
        span = self.epochs.get(epoch)
        if span is None:
            self.epochs[epoch] = Span(seq, seq, self._finding(FaultKind.AFTER_FENCING, one, ""))
        elif seq < span.first:
            span.first = seq
        elif seq > span.last:
            span.last, span.finding = seq, self._finding(FaultKind.AFTER_FENCING, one, "")

    def _row(self, one: _One, held: PartitionState) -> None:
        self.verdict.records += 1
        name, ordinal, half = parts_of(one.change_id)
        if name.startswith((SNAPSHOT, TRUNCATE)):
            self._existing(one, held)
            return
        transaction = self.truth.store.transaction(name)
        if transaction is None:
            self._unknown(one, name)
            return
        change = (
            self.truth.store.change(transaction.rank, int(ordinal))
            if ordinal.isdigit() and half in _HALVES
            else None
        )
        if change is None:
            self._no_such_change(one, transaction, ordinal)
            return
        if self._is_blurred(transaction, ordinal):
            return
        one.transaction = transaction
        bit = _HALVES[half]
        if self.seen[change.n] & bit:
            self._fault(FaultKind.REPEATED, one, "it is in Kafka already")
            return
        self.seen[change.n] |= bit
        self._check_order(one, held, change.shape.name, change.position * 2 + (half == "1"))
        self._compared(one, change, half)

    def _existing(self, one: _One, held: PartitionState) -> None:
        """Check the order of a row that a SELECT read or a statement removed; images are judged later."""
        if one.seq <= held.seq:
            self._fault(FaultKind.OUT_OF_ORDER, one, f"seq {one.seq} follows seq {held.seq}")
        if one.claim is not None:
            self._fault(FaultKind.DIFFERENT, one, one.claim)
        if FORMAT in one.value:
            self.verdict.unjudged[f"existing rows in the format {one.value[FORMAT]}"] += 1
        if name := emptied_by(one.change_id):
            transaction = self.truth.store.transaction(name)
            if transaction is None:
                self.verdict.unjudged["deletes of a TRUNCATE outside the window"] += 1
            elif not self.truth.empties(transaction.rank, one.value["source"]):
                self._fault(FaultKind.FOREIGN, one, "its transaction does not empty its table")

    def _is_blurred(self, transaction: Transaction, ordinal: str) -> bool:
        """Whether the witness may number a change differently, having missed rows of the transaction.

        Such changes are counted as not judged.
        """
        blurred = self.truth.blurred.get(transaction.rank)
        return blurred is not None and ordinal.isdigit() and int(ordinal) >= blurred[0]

    def _check_order(
        self, one: _One, held: PartitionState, table: TableName, position: int
    ) -> None:
        if held.first_position is None:
            held.first_position = position
        greatest = held.positions.get(table, -1)
        if position <= greatest:
            self._fault(FaultKind.OUT_OF_ORDER, one, "it follows a later change of its table")
        elif one.seq <= held.seq:
            self._fault(FaultKind.OUT_OF_ORDER, one, f"seq {one.seq} follows seq {held.seq}")
        held.positions[table] = max(greatest, position)

    def _compared(self, one: _One, change: Change, half: str) -> None:
        source, subject = one.value["source"], self.subject
        routes = subject.routes.of_number(one.seq)
        route = routes.of(change.shape.name)
        if what := format_fault(one.value, route):
            self._fault(FaultKind.DIFFERENT, one, what)
            return
        if FORMAT in one.value:
            self.verdict.unjudged[unjudged(one.value[FORMAT])] += 1
            if one.topic not in topics_of(
                change.shape.name, routes, subject.versions, subject.shares
            ):
                self._fault(FaultKind.DIFFERENT, one, "it is not in a topic of its table")
            return
        name = (source["db"], source["table"])
        version = subject.versions.get((*name, source["schema"] or 0))
        found = self._comparers.get(id(routes))
        if found is None:
            found = self._comparers[id(routes)] = (
                routes,
                Comparer(self.verdict.unjudged, routes.of),
            )
        comparer = found[1]
        if route is None:
            what = "the mapping that was in force for its seq does not publish its table"
            self._fault(FaultKind.DIFFERENT, one, what)
            return
        topics = subject.shares.with_homes({route.topic, version.topic if version else ""})
        if name != change.shape.name or one.topic not in topics:
            what = f"it names {'.'.join(map(str, name))}, the change is of {'.'.join(change.shape.name)}"
            self._fault(FaultKind.DIFFERENT, one, what)
            return
        columns = comparer.columns(change.shape, version)
        spread = (version.partitions if version else None) or subject.partitions[one.topic]
        target = (one.partition, spread)
        fault = one.claim
        if fault is None and is_whole(one.value):
            fault = comparer.fault(change, one.value, half, version) or key_fault(
                columns, one.value, one.record, target, shard=route.shard
            )
        if fault is not None:
            self._fault(FaultKind.DIFFERENT, one, fault)
        if one.value["op"] == "d" and one.record.key and (columns is None or columns.key):
            held = self.held[one.topic, one.partition]
            held.tombstones[one.record.key] = self._finding(
                FaultKind.LOST, one, "its tombstone is missing"
            )

    def _tombstone(self, topic: str, partition: int, record: StoredRecord) -> None:
        held = self.held.setdefault((topic, partition), PartitionState())
        found = held.tombstones.pop(record.key, None)
        change_id = dict(record.headers).get(HEADER_CHANGE_ID, b"").decode()
        if found is not None and found.change_id == change_id:
            return
        if held.copied and held.copied == change_id:
            return
        name, ordinal, _ = parts_of(change_id)
        transaction = self.truth.store.transaction(name)
        if held.first_position is None or transaction is None or is_foreign(record):
            return  # of another destination, of a delete outside the window, or not judged
        if transaction.id in self.truth.undecided:
            return
        if self._is_blurred(transaction, ordinal):
            return
        what = "a tombstone without a delete before it"
        self.verdict.add(
            Finding(
                kind=FaultKind.FOREIGN,
                what=what,
                change_id=change_id,
                topic=topic,
                partition=partition,
                offset=record.offset,
            )
        )

    def _statement(self, one: _One) -> None:
        self.verdict.records += 1
        (name, ordinal, _), subject = parts_of(one.change_id), self.subject
        if name.startswith(ANNOUNCED):
            self.verdict.unjudged["versions of tables that no statement made"] += 1
            return
        transaction = self.truth.store.transaction(name)
        if transaction is None:
            self._unknown(one, name)
            return
        one.transaction = transaction
        found = self.truth.store.statement(transaction.rank)
        if found is None or ordinal != DDL_ORDINAL:
            self._fault(FaultKind.FOREIGN, one, "its transaction has no such statement")
        elif transaction.rank in self.statements:
            self._fault(FaultKind.REPEATED, one, "it is in Kafka already")
        elif "\ufffd" in found[0]:
            self.verdict.unjudged["texts of statements in a character set other than UTF-8"] += 1
        elif "online" not in one.value and subject.routes.of_number(one.seq).masks_any:
            if not _is_hidden_form(one.value["ddl"], found[0]):
                self.verdict.unjudged["texts of statements whose literals are hidden"] += 1
        elif "online" not in one.value and _plain(found[0]) != _plain(one.value["ddl"]):
            self._fault(FaultKind.DIFFERENT, one, "its text is not the statement's")
        self.statements.add(transaction.rank)

    def _unknown(self, one: _One, name: str) -> None:
        """Judge a record whose transaction is not within the window."""
        gtid, truth = one.value["source"].get("gtid"), self.truth
        if gtid is not None:
            if gtid in truth.before:
                self.verdict.unjudged["records before the window"] += 1
            elif gtid in truth.after:
                self.verdict.unjudged["records after the window"] += 1
            elif self.subject.end.gtids is not None and gtid not in self.subject.end.gtids:
                self._fault(
                    FaultKind.CURSOR, one, "it is delivered, but the cursor does not contain it"
                )
            else:
                self._fault(FaultKind.FOREIGN, one, "the source has no such transaction")
            return
        server, _, position = name.partition(":")
        file, _, pos = position.rpartition(":")
        if server != self.subject.server_uuid:
            self.verdict.unjudged[f"records of another server, {server}"] += 1
        elif truth.first is None or _order(file, pos) < truth.first.order:
            self.verdict.unjudged["records before the window"] += 1
        elif truth.last is not None and _order(file, pos) >= truth.last.order:
            is_published = _order(file, pos) < self.subject.end.coordinates.order
            if is_published:
                self.verdict.unjudged["records after the window"] += 1
            else:
                self._fault(FaultKind.CURSOR, one, "it is delivered, but the cursor is before it")
        else:
            self._fault(FaultKind.FOREIGN, one, "the source has no such transaction")

    def _no_such_change(self, one: _One, transaction: Transaction, ordinal: str) -> None:
        blurred = self.truth.blurred.get(transaction.rank)
        if transaction.id in self.truth.undecided:
            self.verdict.unjudged["rows of XA transactions prepared before the first file"] += 1
        elif one.value.get("op", "t") == "t" and transaction.rank in self.truth.dropping:
            # A record in another format has no ``op``; nothing else of such a record is judged either.
            self.verdict.unjudged["tables whose rows are gone by a DROP"] += 1
            self.dropped.setdefault(transaction.rank, Counter())[one.topic] += 1
        elif blurred is not None and self._is_blurred(transaction, ordinal):
            self.verdict.unjudged[rows_after(blurred[1])] += 1
        else:
            partial = self.subject.end.partial
            is_cut = partial is not None and partial[0] == transaction.id
            kind = FaultKind.CURSOR if is_cut else FaultKind.FOREIGN
            self._fault(kind, one, "its transaction has no such change of a captured table")

    def _fault(self, kind: FaultKind, one: _One, what: str) -> None:
        self.verdict.add(self._finding(kind, one, what))

    def _finding(self, kind: FaultKind, one: _One, what: str) -> Finding:
        source = one.value["source"]
        return Finding(
            kind=kind,
            what=what,
            change_id=one.change_id,
            source=f"{source.get('file')}:{source.get('pos')}",
            topic=one.topic,
            partition=one.partition,
            offset=one.record.offset,
        )


@dataclass(slots=True)
class _One:
    topic: str
    partition: int
    record: StoredRecord
    value: dict[str, Any]
    change_id: str
    seq: int
    transaction: Transaction | None = None
    claim: str | None = None
    """The fault of its images in the claim-check store."""


def rows_after(table: str) -> str:
    """The label for rows whose ordinal in their transaction is not known."""
    return f"rows at or after some of {table} that the witness cannot read"


def _order(file: str, pos: str) -> tuple[int, int]:
    number = file.rpartition(".")[2]
    return (int(number) if number.isdigit() else 0, int(pos) if pos.isdigit() else 0)


def _is_hidden_form(shown: str, sql: str) -> bool:
    """Whether a text equals the statement's except for literals; False if that is not certain."""
    pair = [query_without_literals(one, _ANY) for one in (shown, sql)]
    return None not in pair and _plain(str(pair[0])) == _plain(str(pair[1]))


_ANY = Server(version=(9, 9, 9))
"""A server that executes all comments made for a version."""


def _plain(sql: str) -> str:
    """A statement's text without the blanks and semicolons that programs add at its ends."""
    return sql.strip().rstrip(";").strip()


# Records in another format than the envelope, as far as an audit judges them.
#
# Invariant: the existence, order, numbers, epochs and format of these records are judged like those of any
# record. Their values, keys, partitions and tombstones are not judged; the audit counts such records by format.


FORMAT = "format"


def contents_of(record: StoredRecord) -> dict[str, Any]:
    """Return the value of a record; in another format, only ``source``, as in the envelope, and ``format``.

    Raise KeyError or ValueError if the record follows no known format.
    """
    name = format_of(record)
    if name is None:
        value: dict[str, Any] = orjson.loads(record.value)
        return value
    return {"source": source_of(record), FORMAT: name}


def is_foreign(record: StoredRecord) -> bool:
    """Whether a record or a tombstone is of another format."""
    return format_of(record) is not None


def format_fault(value: dict[str, Any], route: Route | None) -> str | None:
    """Return the fault of a record's format; None if there is none, or if no mapping sets the format."""
    found = value.get(FORMAT, DEBEZIUM)
    if route is None or route.mapped is None or found == route.format:
        return None
    return f"its format is {found}, and that of the mapping in force for its seq is {route.format}"


def topics_of(name: TableName, routes: Routes, versions: Versions, shares: Shares) -> set[str]:
    """The topics of a table's route and of all its versions, since a record does not name its version."""
    route, number = routes.of(name), 1
    found = set() if route is None else {route.topic}
    while version := versions.get((*name, number)):
        found.add(version.topic)
        number += 1
    return shares.with_homes(found)


def unjudged(name: str) -> str:
    """The label under which records of a format are counted as not judged."""
    return f"values, keys and partitions of records in the format {name}"
